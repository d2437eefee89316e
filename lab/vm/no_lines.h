/* SPDX-License-Identifier: MIT */
/* no_lines.h - included before every source of the modules when lab/vm/build is called with
 * --without-lines: they are compiled as for a kernel without dynamic debug, where pr_debug() is
 * nothing.  The difference from the usual modules is what the line costs while it is off.
 */
#undef CONFIG_DYNAMIC_DEBUG
