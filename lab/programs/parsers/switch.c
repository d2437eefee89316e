/* SPDX-License-Identifier: MIT */
/* switch.c - switch.h, compiled like the other files here. */
#include "switch.h"

const struct parser parser_switch = {
    .name = "switch",
    .words = "each byte goes through one switch",
    .ours = true,
    .resumes = true,
    .missing = never_missing,
    .begin = machine_begin,
    .feed = feed,
    .tell = machine_tell,
};
