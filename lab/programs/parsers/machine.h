/* SPDX-License-Identifier: MIT */
/* machine.h - the state that the parsers of states.def keep between two bytes.
 *
 * Offsets, not pointers: the bytes of an earlier piece may be gone.
 */
#ifndef MACHINE_H
#define MACHINE_H
#include <string.h>
#include "../../../core/byte.h"
#include "parsers.h"

enum state {
#define STATE(name, ...) name,
#include "states.def"
#undef STATE
};

struct machine {
    enum state state;
    uint32_t fed;           /* bytes of earlier pieces */
    uint32_t start, behind; /* of the part being read */
    uint64_t letters;       /* of the method, the last eight */
    unsigned char major;
    struct parsed told;
};

/* A cheap test: the letters were gathered on the way, so that each method takes one comparison. */
static inline uint8_t machine_method(uint64_t letters, uint32_t len)
{
    if (len == 3 && letters == 0x474554)
        return PARSED_GET;
    if (len == 4 && letters == 0x48454144)
        return PARSED_HEAD;
    return len == 7 && letters == 0x4f5054494f4e53 ? PARSED_OPTIONS : PARSED_OTHER;
}

void machine_begin(void *state);
void machine_tell(const void *state, struct parsed *told);

#endif
