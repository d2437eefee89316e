/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* core_main.c - the module rung_core: what it is, and what other modules use of the core. */
#include <linux/export.h>
#include <linux/module.h>
#include "../core/conn.h"

EXPORT_SYMBOL_GPL(echo_proto);

MODULE_DESCRIPTION("rung: the core, and what serves connections inside the kernel");
MODULE_LICENSE("Dual MIT/GPL");
