/* SPDX-License-Identifier: MIT */
/* object.c - the compiled programs of trace.bpf.c, as bytes of this program: nothing has to lie
 * beside it.  TRACE_OBJECT is the file's name, given by the Makefile. */
#include "object.h"

__asm__(".section .rodata\n"
        ".balign 8\n"
        ".global trace_object\n"
        "trace_object:\n"
        ".incbin \"" TRACE_OBJECT "\"\n"
        ".global trace_object_end\n"
        "trace_object_end:\n"
        ".byte 0\n"
        ".previous\n");
