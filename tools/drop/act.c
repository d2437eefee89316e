/* SPDX-License-Identifier: MIT */
/* act.c - drops all of a haul: through sock_diag where the kernel has it, otherwise through the
 * module rung_drop.
 *
 * A pair is written to the module as text, into a file of this namespace.  The module knows no
 * cookies, so it takes whatever socket has these four numbers at that moment, but never one that
 * listens.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>
#include "drop.h"

#define MODULE_FILE "/proc/net/rung_drop"

struct ways {
    struct diag *diag;
    unsigned through; /* auto until one of them has shown that it works */
    int module;       /* descriptor, -1 before it is needed */
};

static int module_drop(struct ways *ways, const struct entry *entry)
{
    char local[END_TEXT], peer[END_TEXT], line[2 * END_TEXT];
    int len;

    if (entry->state == TCP_LISTEN)
        return -ENOTCONN;
    if (ways->module < 0)
        ways->module = open(MODULE_FILE, O_WRONLY | O_CLOEXEC);
    if (ways->module < 0)
        return errno == ENOENT ? -EOPNOTSUPP : -errno;
    end_write(&entry->pair.local, entry->pair.device, local);
    end_write(&entry->pair.peer, 0, peer);
    len = snprintf(line, sizeof(line), "%s %s\n", local, peer);
    return write(ways->module, line, (size_t)len) < 0 ? -errno : 0;
}

static int drop(struct ways *ways, const struct entry *entry)
{
    int err = -EOPNOTSUPP;

    if (ways->through != THROUGH_MODULE)
        err = diag_drop(ways->diag, entry);
    if (ways->through == THROUGH_AUTO && err != -EOPNOTSUPP)
        ways->through = THROUGH_DIAG;
    if (ways->through == THROUGH_DIAG || err != -EOPNOTSUPP)
        return err;
    err = module_drop(ways, entry);
    if (err != -EOPNOTSUPP)
        ways->through = THROUGH_MODULE;
    return err;
}

/* If several sockets listen at one port, the kernel finds one of them, which need not be the one
 * that is meant.  A listener that is not found is therefore not known to be gone. */
static bool is_gone(const struct entry *entry, int err)
{
    return err == -ENOENT && entry->state != TCP_LISTEN;
}

void act(struct diag *diag, const struct haul *haul, unsigned through, struct outcome *outcome)
{
    struct ways ways = {diag, through, -1};

    outcome->done = true;
    for (size_t i = 0; i < haul->count; i++) {
        int err = drop(&ways, &haul->entry[i]);

        outcome->dropped += !err;
        outcome->gone += is_gone(&haul->entry[i], err);
        if (!err || is_gone(&haul->entry[i], err))
            continue;
        outcome->refused++;
        outcome->error = outcome->error ? outcome->error : err;
        if (err == -EPERM || err == -EACCES) { /* the others will fare no better */
            outcome->refused += haul->count - i - 1;
            break;
        }
    }
    outcome->by_module = ways.through == THROUGH_MODULE;
    if (ways.module >= 0)
        close(ways.module);
}
