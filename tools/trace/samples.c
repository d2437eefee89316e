/* SPDX-License-Identifier: MIT */
/* samples.c - what each processor does, some hundred times a second: perf_event_open(2) with the
 * processor's clock, which needs no counter of the hardware.
 *
 * Each processor has a ring of records that the kernel writes and this process reads.  A fork and
 * the child's first sample may lie in two rings, so the records of all rings are read in the order
 * of their times.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include "interrupt.h"
#include "stacks.h"

enum {
    RECORD_MAX = 65536,
    RING_MOST = 8 << 20,    /* bytes, without the head's page */
    RING_ANYBODY = 512 << 10 /* each user may lock as much for each processor, in pages of 4 KiB */
};

/* The kernel's number of each register (asm/perf_regs.h), by its number in the tables. */
#if defined(__x86_64__)
static const unsigned char number[UNWIND_REGISTERS] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18,
                                                       19, 20, 21, 22, 23, 8};
enum { KERNEL_REGISTERS = 24 };
#elif defined(__aarch64__)
static const unsigned char number[UNWIND_REGISTERS] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
enum { KERNEL_REGISTERS = 33 };
#endif

struct processor {
    int fd;
    struct perf_event_mmap_page *page; /* NULL: it is off */
    uint64_t at, head;                 /* read to here; ends here */
};

struct samples {
    unsigned processors;
    size_t page_bytes, ring_bytes; /* of a ring without its head, a power of two */
    uint64_t lost;
    struct processor *processor;
    char record[RECORD_MAX]; /* a record that crosses the ring's end */
};

/* --- Rings ------------------------------------------------------------------------------------ */

static uint64_t mask(void)
{
    uint64_t bits = 0;

    for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
        bits |= 1ull << number[i];
    return bits;
}

static int open_one(struct samples *s, unsigned i)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .disabled = 1,
        .freq = 1,
        .sample_freq = SAMPLES_A_SECOND,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN |
                       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .exclude_idle = 1,
        .exclude_callchain_user = 1,
        .sample_regs_user = mask(),
        .sample_stack_user = SAMPLE_STACK_BYTES,
        .task = 1,
        .comm = 1,
        .comm_exec = 1,
    };
    struct processor *p = &s->processor[i];
    void *at;

    p->fd = (int)syscall(SYS_perf_event_open, &attr, -1, i, -1, PERF_FLAG_FD_CLOEXEC);
    if (p->fd < 0)
        return errno == ENODEV ? 0 : errno == EPERM ? -EACCES : -errno; /* ENODEV: it is off */
    at = mmap(NULL, s->page_bytes + s->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    p->page = at == MAP_FAILED ? NULL : at;
    return p->page ? 0 : -errno;
}

static void close_all(struct samples *s)
{
    for (unsigned i = 0; i < s->processors; i++) {
        if (s->processor[i].page)
            munmap(s->processor[i].page, s->page_bytes + s->ring_bytes);
        if (s->processor[i].fd >= 0)
            close(s->processor[i].fd);
        s->processor[i] = (struct processor){.fd = -1};
    }
}

/* All rings have one size, because all processors share the memory that a user may lock. */
static int open_all(struct samples *s, size_t bytes)
{
    int err = 0;

    s->ring_bytes = bytes;
    for (unsigned i = 0; i < s->processors && !err; i++)
        err = open_one(s, i);
    return err;
}

int samples_begin(struct samples **to)
{
    struct samples *s = calloc(1, sizeof(*s));
    unsigned processors = (unsigned)get_nprocs_conf();
    int err;

    *to = s;
    if (!s)
        return -ENOMEM;
    s->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    s->processor = calloc(processors, sizeof(s->processor[0]));
    if (!s->processor)
        return -ENOMEM;
    s->processors = processors;
    for (unsigned i = 0; i < processors; i++)
        s->processor[i].fd = -1;
    err = open_all(s, RING_MOST);
    if (err == -EPERM) {
        close_all(s);
        err = open_all(s, RING_ANYBODY);
    }
    return err;
}

static void switch_all(const struct samples *s, unsigned long request)
{
    for (unsigned i = 0; i < s->processors; i++)
        if (s->processor[i].page)
            ioctl(s->processor[i].fd, request, 0); /* never fails for an open event */
}

void samples_start(struct samples *s)
{
    switch_all(s, PERF_EVENT_IOC_ENABLE);
}

void samples_stop(struct samples *s)
{
    switch_all(s, PERF_EVENT_IOC_DISABLE);
}

void samples_end(struct samples *s)
{
    if (!s)
        return;
    close_all(s);
    free(s->processor);
    free(s);
}

uint64_t samples_lost(const struct samples *s)
{
    return s->lost;
}

/* --- Records ---------------------------------------------------------------------------------- */

/* The next 64 bits of a record; 0 behind its end. */
static uint64_t next(const char **at, const char *end)
{
    uint64_t word = 0;

    if (end - *at >= (ptrdiff_t)sizeof(word))
        memcpy(&word, *at, sizeof(word));
    *at += sizeof(word);
    return word;
}

/* In the order of PERF_RECORD_SAMPLE in linux/perf_event.h. */
static void read_sample(const char *at, const char *end, struct sample *s)
{
    static uint64_t kernel[SAMPLE_FRAMES_MAX];
    const uint64_t given = mask();
    uint64_t reg[KERNEL_REGISTERS] = {0}, ids = next(&at, end), count, size;

    at += sizeof(uint64_t); /* the time */
    count = next(&at, end);
    *s = (struct sample){.pid = (uint32_t)ids, .tid = (uint32_t)(ids >> 32), .kernel = kernel};
    for (uint64_t i = 0; i < count && at < end; i++) {
        uint64_t address = next(&at, end);

        if (address < PERF_CONTEXT_MAX && s->kernels < SAMPLE_FRAMES_MAX)
            kernel[s->kernels++] = address;
    }
    s->in_program = next(&at, end) == PERF_SAMPLE_REGS_ABI_64;
    if (!s->in_program)
        return;
    for (unsigned i = 0; i < KERNEL_REGISTERS; i++)
        if (given >> i & 1)
            reg[i] = next(&at, end);
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
        s->reg[i] = reg[number[i]];
    size = next(&at, end);
    s->stack = at;
    if (size > (uint64_t)(end > at ? end - at : 0))
        return;
    at += size;
    s->stack_len = size ? next(&at, end) : 0; /* how many of the bytes above are the stack's */
    s->stack_len = s->stack_len < size ? s->stack_len : size;
}

/* Every record has its time: a sample after its process, any other at its end (sample_id_all). */
static uint64_t time_of(const struct perf_event_header *h)
{
    const char *end = (const char *)h + h->size;
    const char *at = h->type == PERF_RECORD_SAMPLE ? (const char *)(h + 1) + sizeof(uint64_t)
                                                   : end - sizeof(uint64_t);

    return next(&at, end);
}

/* Reports a record; its members are as in linux/perf_event.h. */
static void see(struct samples *s, const struct perf_event_header *h,
                const struct sample_reader *r)
{
    const char *at = (const char *)(h + 1), *end = (const char *)h + h->size;
    uint64_t first = next(&at, end); /* FORK, EXIT: process and its parent; COMM: and thread */
    uint32_t pid = (uint32_t)first;
    char name[PROCESS_TEXT];
    struct sample sample;

    if (h->type == PERF_RECORD_FORK) {
        r->forked(r->arg, (uint32_t)(first >> 32), pid);
    } else if (h->type == PERF_RECORD_COMM && h->misc & PERF_RECORD_MISC_COMM_EXEC) {
        snprintf(name, sizeof(name), "%.*s", (int)strnlen(at, (size_t)(end - at)), at);
        r->executes(r->arg, pid, name);
    } else if (h->type == PERF_RECORD_SAMPLE) {
        read_sample((const char *)(h + 1), end, &sample);
        r->sampled(r->arg, &sample);
    } else if (h->type == PERF_RECORD_LOST) {
        s->lost += next(&at, end); /* after the number of the event */
    } else if (h->type == PERF_RECORD_EXIT) {
        r->ended(r->arg, pid);
    }
}

/* The next record of a ring, in one piece: in the ring, or copied to s->record.  NULL: none. */
static const struct perf_event_header *record_at(struct samples *s, const struct processor *p)
{
    size_t bytes = s->ring_bytes, from = p->at % bytes;
    const char *ring = (const char *)p->page + s->page_bytes;
    const struct perf_event_header *h = (const void *)(ring + from); /* records are aligned */

    if (p->at >= p->head || h->size < sizeof(*h))
        return NULL;
    if (from + h->size <= bytes)
        return h;
    memcpy(s->record, h, bytes - from);
    memcpy(s->record + bytes - from, ring, h->size - (bytes - from));
    return (const void *)s->record;
}

/* The ring with the oldest record from before before_ns; NULL: none. */
static struct processor *oldest(struct samples *s, uint64_t before_ns)
{
    struct processor *found = NULL;

    for (unsigned i = 0; i < s->processors; i++) {
        struct processor *p = &s->processor[i];
        const struct perf_event_header *h = p->page ? record_at(s, p) : NULL;

        if (h && time_of(h) < before_ns) {
            before_ns = time_of(h);
            found = p;
        }
    }
    return found;
}

void samples_read(struct samples *s, const struct sample_reader *reader)
{
    uint64_t now = now_ns(CLOCK_MONOTONIC); /* older records are in their rings by now */
    struct processor *p;

    for (unsigned i = 0; i < s->processors; i++)
        if (s->processor[i].page)
            s->processor[i].head = __atomic_load_n(&s->processor[i].page->data_head,
                                                   __ATOMIC_ACQUIRE);
    while ((p = oldest(s, now)) != NULL) {
        const struct perf_event_header *h = record_at(s, p);

        see(s, h, reader);
        p->at += h->size;
        __atomic_store_n(&p->page->data_tail, p->at, __ATOMIC_RELEASE);
    }
}
