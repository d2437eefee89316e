/* SPDX-License-Identifier: MIT */
/* edge.h - input that ends where the memory ends: a read of one byte too many certainly crashes.
 *
 * edge() copies bytes so that the last one is right before a page without access.  A copy lives
 * until EDGES more have been made.  The pages stay mapped for the life of the program.
 */
#ifndef TESTS_UNIT_EDGE_H
#define TESTS_UNIT_EDGE_H
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EDGES = 16 };

static inline char *edge(const void *bytes, size_t n)
{
    static struct {
        char *start;
        size_t size; /* bytes that may be accessed */
    } slot[EDGES];
    static unsigned turn;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (n / page + 1) * page;
    unsigned i = turn++ % EDGES;
    char *copy;

    if (slot[i].size < size) {
        if (slot[i].start)
            munmap(slot[i].start, slot[i].size + page);
        slot[i].start = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);
        if (slot[i].start == MAP_FAILED || mprotect(slot[i].start + size, page, PROT_NONE) != 0)
            abort();
        slot[i].size = size;
    }
    copy = slot[i].start + slot[i].size - n;
    if (n > 0)
        memcpy(copy, bytes, n);
    return copy;
}

#endif
