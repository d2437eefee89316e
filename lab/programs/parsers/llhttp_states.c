/* SPDX-License-Identifier: MIT */
/* llhttp_states.c - the states of llhttp, which declare names of llhttp.c with other types. */
#include "parsers.h"
#if HAS(<llhttp.c>)
#include <llhttp.c>
#endif
