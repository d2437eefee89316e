/* SPDX-License-Identifier: MIT */
/* llhttp_states.c - the states of llhttp, which declare what llhttp.c has with other types. */
#include "parsers.h"
#if HAS(<llhttp.c>)
#include <llhttp.c>
#endif
