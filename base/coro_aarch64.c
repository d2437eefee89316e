/* SPDX-License-Identifier: MIT */
/* coro_aarch64.c - switching stacks on arm64 (AAPCS64 6.1: x19-x28, the frame pointer x29 and the
 * low halves of v8-v15 are the callee's to preserve; x30 is where to return).
 *
 * A suspended stack holds those twenty.  A new one is laid out the same way, with the entry and its
 * argument in x19 and x20 and a small piece of code to return to, which calls the entry.  The stack
 * pointer is a multiple of 16 at all times.
 */
#include <stdint.h>
#include <string.h>
#include "coro.h"

__asm__(".text\n"
        ".globl coro_switch\n"
        ".type coro_switch, %function\n"
        "coro_switch:\n"
        "    stp x29, x30, [sp, #-160]!\n"
        "    stp x19, x20, [sp, #16]\n"
        "    stp x21, x22, [sp, #32]\n"
        "    stp x23, x24, [sp, #48]\n"
        "    stp x25, x26, [sp, #64]\n"
        "    stp x27, x28, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp x27, x28, [sp, #80]\n"
        "    ldp x25, x26, [sp, #64]\n"
        "    ldp x23, x24, [sp, #48]\n"
        "    ldp x21, x22, [sp, #32]\n"
        "    ldp x19, x20, [sp, #16]\n"
        "    ldp x29, x30, [sp], #160\n"
        "    ret\n"
        ".size coro_switch, . - coro_switch\n"
        ".globl coro_first\n"
        ".hidden coro_first\n"
        ".type coro_first, %function\n"
        "coro_first:\n"
        "    mov x0, x20\n"
        "    blr x19\n"
        "    brk #1\n"
        ".size coro_first, . - coro_first\n");

void coro_first(void);

void *coro_prepare(void *top, void (*entry)(void *arg), void *arg)
{
    uint64_t frame[20] = {0};
    char *sp = (char *)top - sizeof(frame);

    frame[1] = (uint64_t)(uintptr_t)coro_first; /* x30; x29 is 0: the end of the chain */
    frame[2] = (uint64_t)(uintptr_t)entry;      /* x19 */
    frame[3] = (uint64_t)(uintptr_t)arg;        /* x20 */
    memcpy(sp, frame, sizeof(frame));
    return sp;
}
