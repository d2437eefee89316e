/* SPDX-License-Identifier: MIT */
/* coro_x86_64.c - switching stacks on x86-64 (System V ABI, 3.2.1: rbx, rbp, r12-r15 are the
 * callee's to preserve).
 *
 * A suspended stack holds those six and the address to return to.  A new one is laid out the same
 * way, with the entry and its argument in r12 and r13 and a small piece of code to return to, which
 * calls the entry.  That piece keeps the alignment that a call expects: rsp + 8 is a multiple of 16
 * at an entry.
 */
#include <stdint.h>
#include "coro.h"

__asm__(".text\n"
        ".globl coro_switch\n"
        ".type coro_switch, @function\n"
        "coro_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size coro_switch, . - coro_switch\n"
        ".globl coro_first\n"
        ".hidden coro_first\n"
        ".type coro_first, @function\n"
        "coro_first:\n"
        "    movq %r13, %rdi\n"
        "    xorl %ebp, %ebp\n" /* the end of the chain, for stack unwinders */
        "    call *%r12\n"
        "    ud2\n"
        ".size coro_first, . - coro_first\n");

void coro_first(void);

void *coro_prepare(void *top, void (*entry)(void *arg), void *arg)
{
    uint64_t *sp = top;

    *--sp = 0; /* an unused return address: after the ret below rsp is 16-byte aligned again */
    *--sp = 0;
    *--sp = (uint64_t)(uintptr_t)coro_first;
    *--sp = 0;                         /* rbp */
    *--sp = 0;                         /* rbx */
    *--sp = (uint64_t)(uintptr_t)entry; /* r12 */
    *--sp = (uint64_t)(uintptr_t)arg;   /* r13 */
    *--sp = 0;                         /* r14 */
    *--sp = 0;                         /* r15 */
    return sp;
}
