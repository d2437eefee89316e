/* SPDX-License-Identifier: MIT */
/* sandbox.c - after its start the server gives up what it does not need, so that a fault in it is
 * worth little to those who find it.
 *
 * The sandbox is entered once, when everything is open and before any thread or worker exists: all
 * of them inherit it, and nothing undoes it.  First no program may gain rights, then capabilities
 * are dropped, then the file system is closed, and last most system calls.  A layer that this
 * kernel or this container refuses is reported, and the others are still entered; with --sandbox
 * strict the server does not start then.
 *
 * Root keeps a few capabilities: to read what its folder has (others' files are refused by our own
 * rule, see --user), to open its log again or to store uploads, the memory of rings, and, on
 * kernels that refuse it otherwise, to give listeners a filter when it stops.
 *
 * Sanitizers, profilers and coverage write files and trace threads at the end, and valgrind makes
 * calls of its own, so a program that is examined in one of these ways has no sandbox.
 */
#include "sandbox.h"
#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../base/net.h"
#include "hosts.h"

void __asan_init(void) __attribute__((weak));
void __tsan_init(void) __attribute__((weak));
void __gcov_init(void *) __attribute__((weak));

static bool is_examined(void)
{
    const char *loaded = getenv("LD_PRELOAD");

    return __asan_init || __tsan_init || __gcov_init || (loaded && strstr(loaded, "/vgpreload_"));
}

bool sandbox_wanted(const struct serve_options *opt)
{
    return opt->sandbox != SANDBOX_OFF && !is_examined();
}

/* --- Capabilities ----------------------------------------------------------------------------- */

static int keep_capabilities(uint32_t effective, uint32_t permitted)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{.effective = effective, .permitted = permitted}};

    return syscall(SYS_capset, &head, caps) < 0 ? -errno : 0;
}

/* Whether the filter that a listener needs at the end (net_deafen()) demands CAP_NET_ADMIN, as it
 * does with some kernels. */
static bool filter_needs_right(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && net_deafen(fd) == -EPERM;

    if (fd >= 0)
        close(fd);
    return refused;
}

static uint32_t needed_capabilities(const struct server *srv)
{
    const char *log[HOSTS_MAX + 1];
    bool writes = (srv->hosts && hosts_log_files(srv->hosts, log) > 0) ||
                  hosts_take_uploads(srv->hosts);

    if (geteuid() != 0)
        return 0;
    return 1u << CAP_DAC_READ_SEARCH | (writes ? 1u << CAP_DAC_OVERRIDE : 0) |
           (srv->engine->model == ENGINE_COMPLETION ? 1u << CAP_IPC_LOCK : 0);
}

static int drop_capabilities(const struct server *srv)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    uint32_t keep = needed_capabilities(srv), filter = 1u << CAP_NET_ADMIN;
    struct __user_cap_data_struct has[2];
    int err;

    if (syscall(SYS_capget, &head, has) < 0)
        return -errno;
    if (!has[0].permitted && !has[1].permitted)
        return 0; /* the units for systemd allow no capset() */
    keep &= has[0].permitted;
    filter &= geteuid() == 0 ? has[0].permitted : 0;
    err = keep_capabilities(keep, keep | filter);
    if (!err && filter && filter_needs_right())
        keep |= filter;
    return err ? err : keep_capabilities(keep, keep);
}

/* --- Layers ----------------------------------------------------------------------------------- */

static int stay_without_rights(const struct server *srv)
{
    (void)srv;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int enter_files(const struct server *srv)
{
    const char *log[HOSTS_MAX + 1];
    struct sandbox_root root[HOSTS_MAX + 1];
    unsigned roots = srv->hosts ? srv->hosts->count : 0;
    int err = 0;

    for (unsigned i = 0; i < roots; i++) {
        const struct upload_to *to = hosts_upload(srv->hosts, i);
        int stored = to ? upload_folder_open(to->root_fd, to->at) : -1;

        root[i] = (struct sandbox_root){site_root(srv->hosts->row[i].site),
                                        !srv->hosts->row[i].what.file, stored};
    }
    err = sandbox_files_enter(&(struct sandbox_files){
        .root = root,
        .roots = roots,
        .log = log,
        .logs = srv->hosts ? hosts_log_files(srv->hosts, log) : 0,
        .certificates = srv->tls ? &srv->hosts->tls : NULL});
    for (unsigned i = 0; i < roots; i++)
        if (root[i].stored >= 0)
            close(root[i].stored);
    return err;
}

static int enter_calls(const struct server *srv)
{
    const struct arrangement *a = &srv->arrangement;
    unsigned needs = (srv->engine->model == ENGINE_COMPLETION ? NEED_RING : 0) |
                     (srv->engine->forks || a->processes ? NEED_FORK : 0) |
                     (a->pinned ? NEED_PIN : 0) |
                     (hosts_take_uploads(srv->hosts) ? NEED_STORE : 0);

    return sandbox_calls_enter(needs, srv->opt->sandbox == SANDBOX_STRICT);
}

static const struct {
    const char *name, *without;
    int (*enter)(const struct server *srv);
} layers[] = {
    {"no_new_privs", "a program that it runs may gain rights", stay_without_rights},
    {"giving up capabilities", "it keeps them", drop_capabilities},
    {"Landlock", "files outside the folder are in reach", enter_files},
    {"seccomp", "all system calls are allowed", enter_calls},
};

int sandbox_enter(const struct server *srv)
{
    bool strict = srv->opt->sandbox == SANDBOX_STRICT;

    if (srv->opt->sandbox == SANDBOX_OFF)
        return EXIT_DONE;
    if (is_examined()) {
        if (strict)
            say_error("--sandbox strict: a sanitizer, a profile or valgrind could not write its "
                      "report; use --sandbox on or off");
        return strict ? EXIT_MISSING : EXIT_DONE;
    }
    for (unsigned i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        int err = layers[i].enter(srv);

        if (err && strict) {
            say_error("--sandbox strict: %s is refused here: %s; use --sandbox on or off",
                      layers[i].name, say_why(err));
            return EXIT_MISSING;
        }
        if (err)
            say("sandbox: %s is refused here (%s), so %s", layers[i].name, say_why(err),
                layers[i].without);
    }
    return EXIT_DONE;
}
