/* SPDX-License-Identifier: MIT */
/* listen_congestion.c - the congestion control of listeners, and of connections from far peers
 * (--congestion).
 *
 * auto changes nothing unless the system's default paces.  Then listeners get an algorithm that
 * does not pace, and connections inherit it; connections from far peers get the default back, which
 * takes two calls each.  If all listeners are on loopback, there are no far peers.
 */
#include <errno.h>
#include <string.h>
#include "../base/congestion.h"
#include "../base/net.h"
#include "serve.h"

enum { OFFERED_TEXT = 160 };

static bool all_loopback(const struct option_list *bind)
{
    struct net_address a;

    for (unsigned i = 0; i < bind->count; i++)
        if (!net_address_parse(&a, bind->item[i], 0) && a.sa.ss_family != AF_UNIX &&
            !congestion_loopback(&a.sa))
            return false;
    return true;
}

static int say_refused(const char *name, int err)
{
    char offered[OFFERED_TEXT];

    congestion_offered(offered, sizeof(offered));
    say_error("cannot set --congestion %.40s: %s; auto, system, and of this kernel's own: %s", name,
              err == -ENOENT || err == -EINVAL ? "this kernel has no such algorithm"
              : err == -EPERM                  ? "it is for root"
                                               : say_why(err),
              offered);
    return EXIT_USAGE;
}

int listen_congestion(struct server *srv, const char *word, const struct option_list *bind)
{
    struct arrangement *a = &srv->arrangement;
    char usual[CONGESTION_NAME];
    int err;

    a->congestion = NULL;
    a->congestion_far[0] = '\0';
    if (strcmp(word, "system") == 0)
        return EXIT_DONE;
    if (strcmp(word, "auto") != 0) {
        a->congestion = word;
        err = congestion_try(word);
        return err ? say_refused(word, err) : EXIT_DONE;
    }
    if (congestion_default(usual) || !congestion_paces(usual))
        return EXIT_DONE;
    a->congestion = congestion_prompt();
    if (congestion_try(a->congestion))
        a->congestion = NULL; /* it was offered and is refused: nothing changes */
    else if (!all_loopback(bind))
        memcpy(a->congestion_far, usual, sizeof(usual));
    return EXIT_DONE;
}
