/* SPDX-License-Identifier: MIT */
/* object.c - the compiled programs of trace.bpf.c and sniff.bpf.c, as bytes of this program: no
 * other file is needed.  TRACE_OBJECT and SNIFF_OBJECT are the files' names, given by the
 * Makefile. */
#include "object.h"

#define BYTES(name, file)             \
    __asm__(".section .rodata\n"      \
            ".balign 8\n"             \
            ".global " name "\n"      \
            name ":\n"                \
            ".incbin \"" file "\"\n" \
            ".global " name "_end\n"  \
            name "_end:\n"            \
            ".byte 0\n"               \
            ".previous\n")

BYTES("trace_object", TRACE_OBJECT);
BYTES("sniff_object", SNIFF_OBJECT);
