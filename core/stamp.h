/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* stamp.h - whether a file changed so recently that the next change may leave its times as they
 * are.
 *
 * The host describes the clock that stamps its files; the rule is here.
 */
#ifndef CORE_STAMP_H
#define CORE_STAMP_H
#include "env.h"

struct stamp_clock {
    int64_t now_s, now_ns; /* the kernel's coarse clock, read before a file was looked at */
    int64_t tick_ns;       /* the step in which it moves */
    bool foreign;          /* files are stamped by another clock: stamp_is_foreign() */
};

/* Whether the next change of a file that was last changed then may have the same stamp. */
bool stamp_is_young(const struct stamp_clock *clock, int64_t changed_s, uint32_t changed_ns);

/* How a file system is stamped, by its f_type (statfs(2)) and whether it is on a block device.
 * Local: every change goes through this kernel and shows at once.  Foreign: changes are stamped by
 * the clock of another machine or of a process. */
bool stamp_is_local(uint32_t magic, bool device);
bool stamp_is_foreign(uint32_t magic, bool device);

#endif
