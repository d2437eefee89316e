/* SPDX-License-Identifier: MIT */
/* refuse.h - allocations that are refused in turn: the n-th, or the n-th and all after it.
 *
 * Only allocations between refuse_on() and refuse_off() count: the server's, not those of its
 * client or of the test.  Their blocks are listed until they are freed, so that a run can say which
 * blocks it has left, and where these were allocated.
 *
 * The program provides refuse_real: the functions behind those that it puts in their place.
 */
#ifndef TESTS_REFUSE_H
#define TESTS_REFUSE_H
#include <errno.h>
#include <execinfo.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REFUSE_BLOCKS = 1 << 14, REFUSE_FRAMES = 24 };

struct refuse_block {
    uintptr_t hidden; /* the address, inverted: a leak checker must not find it here; 0: free */
    unsigned serial;
    int frames;       /* of its stack, if stacks are wanted */
};

static struct refuse {
    unsigned at;      /* the n-th is refused; 0: none */
    bool after;       /* ... and all after it */
    bool stacks;
    bool on;
    unsigned count;   /* so far */
    unsigned left;    /* blocks of this run that have not been freed */
    long live;        /* all blocks, of any run and of none */
    struct refuse_block block[REFUSE_BLOCKS]; /* a hash table: linear probing */
    void *frame[REFUSE_BLOCKS][REFUSE_FRAMES];
} refuse;

struct refuse_real {
    void *(*malloc)(size_t n);
    void *(*calloc)(size_t count, size_t n);
    void *(*realloc)(void *p, size_t n);
    void (*free)(void *p);
};

static struct refuse_real refuse_real; /* tentative: the program says which */

/* --- The list --------------------------------------------------------------------------------- */

static inline unsigned refuse_place(uintptr_t hidden)
{
    return (unsigned)((hidden >> 4) * 2654435761u) % REFUSE_BLOCKS;
}

static inline struct refuse_block *refuse_look(const void *p)
{
    uintptr_t hidden = ~(uintptr_t)p;
    unsigned i = refuse_place(hidden);

    while (refuse.block[i].hidden && refuse.block[i].hidden != hidden)
        i = (i + 1) % REFUSE_BLOCKS;
    return &refuse.block[i];
}

static inline void refuse_note(const void *p)
{
    struct refuse_block *b = refuse_look(p);

    if (refuse.left == REFUSE_BLOCKS / 2)
        abort(); /* the list is too short for this test */
    *b = (struct refuse_block){.hidden = ~(uintptr_t)p, .serial = refuse.count};
    if (refuse.stacks)
        b->frames = backtrace(refuse.frame[b - refuse.block], REFUSE_FRAMES);
    refuse.left++;
}

/* Takes a block off the list; the entries after it move up.  False: it is not listed. */
static inline bool refuse_forget(const void *p)
{
    struct refuse_block *b = refuse_look(p), *gap = b;
    unsigned i = (unsigned)(b - refuse.block), home;

    if (!b->hidden)
        return false;
    refuse.left--;
    for (;;) {
        i = (i + 1) % REFUSE_BLOCKS;
        b = &refuse.block[i];
        if (!b->hidden)
            break;
        home = refuse_place(b->hidden);
        if ((i - home) % REFUSE_BLOCKS < (i - (unsigned)(gap - refuse.block)) % REFUSE_BLOCKS)
            continue;
        *gap = *b;
        if (b->frames)
            memcpy(refuse.frame[gap - refuse.block], refuse.frame[i], sizeof(refuse.frame[i]));
        gap = b;
    }
    gap->hidden = 0;
    return true;
}

/* --- Allocations ------------------------------------------------------------------------------ */

static inline void refuse_on(void)
{
    refuse.on = true;
}

static inline void refuse_off(void)
{
    refuse.on = false;
}

static __attribute__((noinline)) bool refuse_refused(void)
{
    errno = ENOMEM;
    return true;
}

/* Whether this allocation is refused. */
static inline bool refuse_this(void)
{
    if (!refuse.on)
        return false;
    refuse.count++;
    if (!refuse.at || refuse.count < refuse.at || (refuse.count > refuse.at && !refuse.after))
        return false;
    return refuse_refused();
}

static inline bool refuse_reached(void)
{
    return refuse.count >= refuse.at;
}

static inline void *refuse_noted(void *p)
{
    refuse.live += p != NULL;
    if (p && refuse.on)
        refuse_note(p);
    return p;
}

static inline void *refuse_malloc(size_t n)
{
    return refuse_this() ? NULL : refuse_noted(refuse_real.malloc(n));
}

static inline void *refuse_calloc(size_t count, size_t n)
{
    return refuse_this() ? NULL : refuse_noted(refuse_real.calloc(count, n));
}

/* A block that is not listed has an owner that is older than this run, and keeps it. */
static inline void *refuse_realloc(void *p, size_t n)
{
    bool listed;
    void *new;

    if (refuse_this())
        return NULL;
    listed = p ? refuse_forget(p) : refuse.on;
    new = refuse_real.realloc(p, n);
    refuse.live += !p && new;
    if (listed && new)
        refuse_note(new);
    return new;
}

static inline void refuse_free(void *p)
{
    if (p)
        refuse_forget(p);
    refuse.live -= p != NULL;
    refuse_real.free(p);
}

/* --- Runs ------------------------------------------------------------------------------------- */

/* Begins a run in which the n-th is refused; 0: none. */
static inline void refuse_begin(unsigned n, bool after)
{
    memset(refuse.block, 0, sizeof(refuse.block));
    refuse.at = n;
    refuse.after = after;
    refuse.count = refuse.left = 0;
}

/* Prints where the blocks were allocated that are left. */
static inline void refuse_print(void)
{
    for (unsigned i = 0; i < REFUSE_BLOCKS; i++) {
        struct refuse_block *b = &refuse.block[i];

        if (!b->hidden)
            continue;
        fprintf(stderr, "left: allocation %u of %u\n", b->serial, refuse.count);
        backtrace_symbols_fd(refuse.frame[i], b->frames, STDERR_FILENO);
    }
}

#endif
