/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kparams.h - the parameters of every serving module, in its one file with module_init().
 *
 * Addresses and models come first; deadlines and limits are the core's own rows (core/options.def),
 * in milliseconds and bytes.  All can be read below /sys/module/NAME/parameters and none can be
 * changed there: a running server keeps what it began with.  The including file defines the
 * module's port (KPARAMS_PORT) and whether its messages have bodies (KPARAMS_BODIES), and calls
 * kparams_fill().
 */
#ifndef KERNEL_KPARAMS_H
#define KERNEL_KPARAMS_H
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/stringify.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>
#include "kserve.h"

/* A number in min..max; with any other number loading fails. */
struct kparam_number {
    unsigned int value, min, max;
};

static int kparam_set(const char *text, const struct kernel_param *param)
{
    struct kparam_number *n = param->arg;
    unsigned int value;
    int err = kstrtouint(text, 0, &value);

    if (!err && (value < n->min || value > n->max))
        err = -ERANGE;
    if (err)
        pr_err("%s: %s takes a number from %u to %u\n", KBUILD_MODNAME, param->name, n->min,
               n->max);
    else
        n->value = value;
    return err;
}

static int kparam_get(char *text, const struct kernel_param *param)
{
    const struct kparam_number *n = param->arg;

    return sysfs_emit(text, "%u\n", n->value);
}

static const struct kernel_param_ops kparam_number_ops = {.set = kparam_set, .get = kparam_get};

#define KPARAM_NUMBER(field, fallback, low, high, help) \
    static struct kparam_number field = {.value = (fallback), .min = (low), .max = (high)}; \
    module_param_cb(field, &kparam_number_ops, &field, 0444); \
    MODULE_PARM_DESC(field, help "; " __stringify(fallback))

/* Loopback by default: a module may be loaded for a trial, before anyone has considered which
 * clients can reach this machine, and a parser in the kernel must not be open to strangers by
 * default. */
static char *bind[KSERVE_BINDS_MAX] = {"127.0.0.1", "::1"};
static unsigned int binds;
module_param_array(bind, charp, &binds, 0444);
MODULE_PARM_DESC(bind, "numeric addresses to listen on, with commas between; 127.0.0.1,::1");

static char *model = "event";
module_param(model, charp, 0444);
MODULE_PARM_DESC(model, "model of waiting: event, softirq, cmwq or kthread");

static char *wq = "";
module_param(wq, charp, 0444);
MODULE_PARM_DESC(wq, "work queue: bound to processors or unbound; the model knows what is best");

static bool highpri, cpu_intensive;
module_param(highpri, bool, 0444);
MODULE_PARM_DESC(highpri, "high priority for the work queue's workers");
module_param(cpu_intensive, bool, 0444);
MODULE_PARM_DESC(cpu_intensive,
                 "the work queue's items do not keep others of their processor waiting");

KPARAM_NUMBER(max_active, 0, 0, WQ_MAX_ACTIVE,
              "work items that run at once; 0: the kernel's default, with cmwq the most");

KPARAM_NUMBER(port, KPARAMS_PORT, 0, 65535, "port to listen on; 0: any free one");
KPARAM_NUMBER(backlog, 4096, 1, 65535,
              "connections that wait to be accepted; also bounded by net.core.somaxconn");
KPARAM_NUMBER(max_connections, 65536, 1, 1048576,
              "connections at once; cmwq has max_active at most, kthread 4096");

KPARAM_NUMBER(recv_bytes, 16384, 1, 16384,
              "size of the buffer for what one call receives; less shows what its size is worth");
static_assert((int)RECV_BYTES_MAX == 16384);

KPARAM_NUMBER(send_bytes, 262144, 64, 262144,
              "bytes of memory to send in one call; less shows what gathering is worth");
static_assert((int)TRANSFER_BYTES_MAX == 262144);

#define KPARAM_UNIT_TIME " (ms)"
#define KPARAM_UNIT_SIZE " (bytes)"
#define KPARAM_UNIT_NUMBER ""
#define SHARED(KIND, field, name, fallback, low, high, help, more) \
    KPARAM_NUMBER(field, fallback, low, high, help KPARAM_UNIT_##KIND);
#ifdef KPARAMS_BODIES
#define SHARED_BODY SHARED
#else
#define SHARED_BODY(...)
#endif
#include "../core/options.def"
#undef SHARED_BODY
#undef SHARED

static int kparam_wq(struct kserve_options *opt)
{
    opt->max_active = max_active.value;
    opt->highpri = highpri;
    opt->cpu_intensive = cpu_intensive;
    opt->bound = sysfs_streq(wq, "bound") || (!*wq && kserve_runs_bound(opt->model));
    if (*wq && !opt->bound && !sysfs_streq(wq, "unbound")) {
        pr_err("%s: wq takes bound or unbound\n", KBUILD_MODNAME);
        return -EINVAL;
    }
    return 0;
}

static int kparams_fill(struct kserve_options *opt)
{
    int which = match_string(kmodel_names, KMODELS, model);
    unsigned i;
    bool some;

    if (which < 0) {
        pr_err("%s: model takes event, softirq, cmwq or kthread\n", KBUILD_MODNAME);
        return -EINVAL;
    }
    some = !binds;
    binds = binds ? binds : 2; /* so that both are read back */
    *opt = (struct kserve_options){
        .name = KBUILD_MODNAME,
        .model = which,
        .port = (u16)port.value,
        .binds = binds,
        .some_binds = some,
        .backlog = (int)backlog.value,
        .connections_max = max_connections.value,
        .recv_bytes = recv_bytes.value,
        .send_bytes = send_bytes.value,
        .head_ms = head_timeout.value,
        .idle_ms = idle_timeout.value,
        .send_ms = send_timeout.value,
        .progress_bytes = min_progress.value,
    };
    for (i = 0; i < opt->binds; i++)
        opt->bind[i] = bind[i];
    return kparam_wq(opt);
}

#endif
