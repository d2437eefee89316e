/* SPDX-License-Identifier: MIT */
/* main.c - rung drop: options, namespace, list, drop, report; the only place that decides the exit
 * code.
 *
 * A separate program, which rung executes for `rung drop`: it alone needs netlink, and may be given
 * a capability that a server should not have.
 */
#include <errno.h>
#include <stdlib.h>
#include "drop.h"

static int cannot_list(const struct haul *haul, int err)
{
    if (haul->too_many) {
        say_error("more than %zu sockets fit: choose fewer (--port, --peer, --state), or allow "
                  "more (--most)", haul->most);
        return EXIT_FAILED;
    }
    if (err == -ENOENT || err == -EPROTONOSUPPORT) {
        say_error("this kernel does not list its TCP sockets: it has no tcp_diag; modprobe "
                  "tcp_diag, or a kernel with CONFIG_INET_TCP_DIAG");
        return EXIT_MISSING;
    }
    say_error("cannot list the TCP sockets: %s", say_why(err));
    return EXIT_FAILED;
}

/* Returns the exit code of the outcome, after a message if people should know about it. */
static int judge(const struct outcome *o, unsigned through)
{
    if (!o->refused)
        return EXIT_DONE;
    if (o->error == -EPERM || o->error == -EACCES) {
        say_error("not permitted: dropping sockets needs root, or CAP_NET_ADMIN in their network "
                  "namespace");
        return EXIT_FAILED;
    }
    if (o->error == -EOPNOTSUPP && !o->dropped) {
        say_error("%s%s%s: see docs/drop.md",
                  through == THROUGH_MODULE ? "" : "this kernel drops no sockets, because it was "
                  "built without CONFIG_INET_DIAG_DESTROY",
                  through == THROUGH_AUTO ? ", and " : "",
                  through == THROUGH_DIAG ? "" : "the module rung_drop is not loaded");
        return EXIT_MISSING;
    }
    if (o->error == -ENOENT)
        say_error("%zu were not dropped: the kernel found other listeners of the same port; try "
                  "again", o->refused);
    else
        say_error("%zu could not be dropped: %s", o->refused, say_why(o->error));
    return EXIT_REFUSED;
}

static int run_on(struct diag *diag, const struct drop_options *opt, struct filter *filter)
{
    struct haul haul = {.most = opt->most};
    struct outcome outcome = {0};
    struct report report = {opt, filter, &haul, &outcome};
    int err = diag_list(diag, filter, &haul);

    if (!err && opt->yes)
        act(diag, &haul, opt->through, &outcome);
    if (!err && !opt->quiet)
        (opt->json ? report_json : report_text)(&report);
    free(haul.entry);
    return err ? cannot_list(&haul, err) : judge(&outcome, opt->through);
}

static int run(const void *options, const struct option_found *found)
{
    const struct drop_options *opt = options;
    struct filter filter = {0};
    struct diag *diag = NULL;
    int code = space_enter(opt->netns), err;

    code = code ? code : filter_make(&filter, opt, found);
    if (!code && opt->yes && !filter_chooses(&filter)) {
        say_error("--yes: say which (--port, --peer, --state, a pair); --state time-wait is all "
                  "in TIME-WAIT");
        code = EXIT_USAGE;
    }
    if (!code) {
        err = diag_open(&diag);
        code = err ? cannot_list(&(struct haul){0}, err) : run_on(diag, opt, &filter);
        diag_close(diag);
    }
    filter_free(&filter);
    return code;
}

int main(int argc, char **argv)
{
    struct drop_options opt = {0};

    (void)argc;
    return option_main(drop_table(), &opt, argv, run);
}
