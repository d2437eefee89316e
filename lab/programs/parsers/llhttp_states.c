/* SPDX-License-Identifier: MIT */
/* llhttp_states.c - the states of llhttp, which declare what llhttp.c has with other types. */
#if __has_include(<llhttp.c>)
#include <llhttp.c>
#endif
