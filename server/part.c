/* SPDX-License-Identifier: MIT */
/* part.c - bytes of a file for a protocol that puts them into records or frames of its own.
 *
 * A loop does not wait for a disk: a range that is not in memory is read by a helper (fetch.c).
 * line.c does the same for bytes that are sent as they are.
 */
#include <errno.h>
#include <sys/uio.h>
#include "inside.h"

/* Bytes that a helper has read. */
static long read_fetched(struct session *s, const struct segment *range, struct iovec to)
{
    long got = fetch_take(s);
    struct iovec bytes;
    size_t n;

    if (got <= 0)
        return got;
    bytes = fetch_bytes(s, range->off);
    if (!bytes.iov_base)
        return pread(site_source_fd(range->source), to.iov_base, to.iov_len, (off_t)range->off);
    n = bytes.iov_len < to.iov_len ? bytes.iov_len : to.iov_len;
    memcpy(to.iov_base, bytes.iov_base, n);
    fetch_sent(s, range->off + n);
    return (long)n;
}

/* True: the helper has been asked, or will be when other output has been sent.  A session has one
 * job, so a range that another answer did not take in time is read again. */
static bool may_ask(struct fetch *fetch, struct session *s, const struct segment *range, bool alone)
{
    if (!alone || fetch_waits(s))
        return true;
    fetch_forget(fetch, s);
    return fetch_ask(fetch, s, range);
}

long part_read(const struct conn *c, const struct segment *range, struct iovec to, bool alone)
{
    struct session *s = (struct session *)(uintptr_t)session_of_conn(c);
    struct fetch *fetch = ((struct loop *)c->host->ctx)->fetch;
    int fd = site_source_fd(range->source);
    long n;

    if (s->fetch && fetch_is_of(s, range))
        return fetch_waits(s) ? -EAGAIN : read_fetched(s, range, to);
    if (fetch && site_source_place(range->source) != SITE_MEMORY) {
        n = preadv2(fd, &to, 1, (off_t)range->off, RWF_NOWAIT);
        if (n >= 0)
            return n;
        if ((errno == EAGAIN || errno == EOPNOTSUPP) && may_ask(fetch, s, range, alone))
            return -EAGAIN;
    }
    do
        n = pread(fd, to.iov_base, to.iov_len, (off_t)range->off);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}
