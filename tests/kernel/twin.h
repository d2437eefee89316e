/* SPDX-License-Identifier: MIT */
/* twin.h - how the unit tests of server/site.c query the kernel's site: one ioctl, one struct.
 *
 * ksite_test.c is the kernel's end, a device; site_twin.c has site.c's functions and calls it.
 */
#ifndef TESTS_KERNEL_TWIN_H
#define TESTS_KERNEL_TWIN_H
#include <linux/ioctl.h>
#include <linux/types.h>

enum { TWIN_OPEN, TWIN_FIND, TWIN_TRY, TWIN_PAGE, TWIN_FILE, TWIN_NEXT, TWIN_RELEASE, TWIN_COUNT };
enum { TWIN_CODINGS = 4, TWIN_SOURCES_MAX = 64, TWIN_TYPE_BYTES = 128 };

struct twin {
    __u32 op;
    __u32 source; /* the source's number, from FIND and PAGE on */

    /* OPEN: root and index; FIND: path and query; NEXT: where the bytes go.  User addresses. */
    __u64 first, first_len;
    __u64 second, second_len; /* address 0: NULL */
    __u32 listing, hidden, precompressed, listing_max;
    __u64 cache_bytes;        /* OPEN */
    __u32 cache_ms, compress, late_us;

    __u16 q[TWIN_CODINGS];
    __u32 json, text, head;
    __u32 status;             /* PAGE */
    __s64 charged;            /* in: memory to count as used by listings that are not ours */

    /* The result. */
    __u32 kind, coding, vary, in_memory, young;
    __u64 size, inode;
    __s64 mtime_s, ctime_s;
    __u32 mtime_ns, ctime_ns;
    char type[TWIN_TYPE_BYTES];
    __s64 listings_bytes;
    __u64 hits, misses, stale, expired, evicted, entries, bytes; /* COUNT: the cache's counters */
    __u64 walks;
};

/* Returns 0 or a number (FILE: a descriptor; NEXT: bytes), or -1 and errno. */
#define TWIN_ASK _IOWR('r', 1, struct twin)
#define TWIN_DEVICE "/dev/rung_ksite_test"

#endif
