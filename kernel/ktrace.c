/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ktrace.c - the trace points of ktrace.h, made by the kernel's macros. */
#define CREATE_TRACE_POINTS
#include "ktrace.h"
