/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* echo_main.c - rung_echo: sends back all that it receives, from inside the kernel.
 *
 * The smallest protocol on the same models as HTTP, so that a model's own cost can be seen.
 */
#define KPARAMS_PORT 12345
#include "kparams.h"

static struct kserve *serve;

static int __init echo_init(void)
{
    const struct kworld world = {.proto = &echo_proto};
    struct kserve_options opt;
    int err = kparams_fill(&opt);

    return err ? err : kserve_open(&serve, &opt, &world);
}

static void __exit echo_exit(void)
{
    kserve_close(serve);
}

module_init(echo_init);
module_exit(echo_exit);
MODULE_DESCRIPTION("rung: an echo server inside the kernel");
MODULE_LICENSE("Dual MIT/GPL");
