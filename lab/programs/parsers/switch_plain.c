/* SPDX-License-Identifier: MIT */
/* switch_plain.c - switch.h, compiled as it is written: GCC must not thread the assignment of a
 * state to the place where it is read, which turns each assignment into a jump.  Clang has no such
 * option: there this is the same as switch.c. */
#ifndef __clang__
#pragma GCC optimize("no-thread-jumps")
#endif
#include "switch.h"

const struct parser parser_switch_plain = {
    .name = "switch-plain",
    .words = "the switch, compiled to one jump for all states",
    .ours = true,
    .resumes = true,
    .missing = never_missing,
    .begin = machine_begin,
    .feed = feed,
    .tell = machine_tell,
};
