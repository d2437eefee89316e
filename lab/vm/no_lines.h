/* SPDX-License-Identifier: MIT */
/* no_lines.h - included before every source of the modules when lab/vm/build is called with
 * --without-lines: they are compiled as for a kernel without dynamic debug, where pr_debug() is
 * nothing.  What the line costs while it is off is the difference from the usual modules.
 */
#undef CONFIG_DYNAMIC_DEBUG
