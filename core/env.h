/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* env.h - the only file of the core that knows where it is being compiled.
 *
 * User space and the Linux kernel give the same few things under different
 * names: fixed-width integers, bool, mem*, and a way to say that a promise of
 * our own was broken.  core_assert() guards our promises, never input.
 */
#ifndef CORE_ENV_H
#define CORE_ENV_H
#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/string.h>
#include <linux/types.h>
#define INT64_MAX S64_MAX
#define UINT64_MAX U64_MAX
#define UINT32_MAX U32_MAX
#else
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#endif

/* Says which promise was broken.  User space ends the process; the kernel warns once. */
void core_failed(const char *promise, const char *file, int line);

#define core_assert(promise) \
    do { \
        if (__builtin_expect(!(promise), 0)) \
            core_failed(#promise, __FILE__, __LINE__); \
    } while (0)

#endif
