/* SPDX-License-Identifier: MIT */
/* faults_seam.h - the seam: every system call and allocation of the server passes through here and
 * can be made to fail.
 *
 * The linker redirects the calls (-Wl,--wrap, see faults.ldflags), so that no line of the server
 * knows of it. One plan at a time: the n-th call of one kind fails with an error number, once or
 * from then on.  The test's own thread is exempt, and so are calls inside libc.  The calls that
 * wait are in faults_time.h.  Included by one source file: it defines functions.
 */
#ifndef TESTS_FAULTS_SEAM_H
#define TESTS_FAULTS_SEAM_H
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The calls that may fail, as the linker sees them. */
#define SEAM_CALLS(X) \
    X(accept4) X(recv) X(sendmsg) X(sendfile64) X(syscall) X(fstat64) X(fstatat64) X(open64) \
    X(preadv64v2) X(getdents64) X(lseek64) X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(eventfd) \
    X(poll) X(read) X(write) X(malloc) X(calloc) X(realloc) X(aligned_alloc) X(mmap64) \
    X(pthread_create) X(select) X(pipe2) X(ioctl) X(getsockopt) X(setsockopt) \
    X(shutdown) X(close) X(dup3) X(getpeername) X(socket) X(bind) X(listen) X(splice) X(munmap) \
    X(io_uring_queue_init_params) X(io_uring_register_buf_ring) \
    X(io_uring_submit_and_get_events)

enum seam_call {
#define X(name) SEAM_##name,
    SEAM_CALLS(X)
#undef X
    SEAM_COUNT
};

/* Instead of an error number: the transfer moves one byte, or none (the file has become
 * shorter). */
enum { SEAM_SHORT = -1, SEAM_NONE = -2 };

struct fault_plan {
    enum seam_call call;
    unsigned n; /* 0: nothing fails */
    int err;
    bool sticky; /* every call from the n-th on */
};

static struct fault_plan seam_plan; /* read by others only while armed */
static atomic_uint seam_armed;
static atomic_uint seam_made[SEAM_COUNT]; /* calls so far */
static atomic_uint seam_hits;
static atomic_long seam_memory;           /* allocations and mappings not given back */
static atomic_bool seam_no_openat2;       /* valgrind does not know the call */
static _Thread_local bool seam_exempt;    /* the test's thread */

static inline void seam_arm(struct fault_plan plan)
{
    atomic_store(&seam_armed, 0);
    for (unsigned i = 0; i < SEAM_COUNT; i++)
        atomic_store(&seam_made[i], 0);
    atomic_store(&seam_hits, 0);
    seam_plan = plan;
    atomic_store(&seam_armed, plan.n != 0);
}

static inline void seam_disarm(void)
{
    atomic_store(&seam_armed, 0);
}

static inline bool seam_fails(enum seam_call call)
{
    unsigned n;

    if (seam_exempt)
        return false;
    n = atomic_fetch_add(&seam_made[call], 1) + 1;
    if (!atomic_load(&seam_armed) || call != seam_plan.call)
        return false;
    if (n != seam_plan.n && !(seam_plan.sticky && n > seam_plan.n))
        return false;
    atomic_fetch_add(&seam_hits, 1);
    errno = seam_plan.err;
    return true;
}

/* TYPE NAME(PARAMETERS), called with ARGUMENTS; a failure returns FAILED. */
#define SEAM(type, name, parameters, arguments, failed) \
    type __real_##name parameters; \
    type __wrap_##name parameters; \
    type __wrap_##name parameters \
    { \
        if (seam_fails(SEAM_##name)) \
            return failed; \
        return __real_##name arguments; \
    }

SEAM(int, accept4, (int fd, struct sockaddr *sa, socklen_t *len, int flags), (fd, sa, len, flags),
     -1)
SEAM(int, fstat64, (int fd, struct stat *st), (fd, st), -1)
SEAM(int, fstatat64, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags),
     -1)
SEAM(ssize_t, getdents64, (int fd, void *buf, size_t n), (fd, buf, n), -1)
SEAM(off_t, lseek64, (int fd, off_t off, int whence), (fd, off, whence), -1)
SEAM(int, epoll_create1, (int flags), (flags), -1)
SEAM(int, epoll_ctl, (int ep, int op, int fd, struct epoll_event *ev), (ep, op, fd, ev), -1)
SEAM(int, eventfd, (unsigned n, int flags), (n, flags), -1)
SEAM(int, pipe2, (int fd[2], int flags), (fd, flags), -1)
SEAM(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n), -1)
SEAM(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *len),
     (fd, level, name, value, len), -1)
SEAM(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t len),
     (fd, level, name, value, len), -1)
SEAM(int, shutdown, (int fd, int how), (fd, how), -1)
SEAM(int, dup3, (int from, int to, int flags), (from, to, flags), -1)
SEAM(int, getpeername, (int fd, struct sockaddr *sa, socklen_t *len), (fd, sa, len), -1)
SEAM(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
SEAM(int, bind, (int fd, const struct sockaddr *sa, socklen_t len), (fd, sa, len), -1)
SEAM(int, listen, (int fd, int backlog), (fd, backlog), -1)
SEAM(int, pthread_create,
     (pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (t, attr, run, arg), errno)

/* The calls of liburing return the error that other calls leave in errno. */
SEAM(int, io_uring_queue_init_params,
     (unsigned n, struct io_uring *ring, struct io_uring_params *p), (n, ring, p), -errno)
SEAM(int, io_uring_register_buf_ring,
     (struct io_uring *ring, struct io_uring_buf_reg *reg, unsigned flags), (ring, reg, flags),
     -errno)
SEAM(int, io_uring_submit_and_get_events, (struct io_uring *ring), (ring), -errno)

/* --- Calls that need more than that ----------------------------------------------------------- */

/* How many bytes a transfer moves; -1: it fails. */
static inline ssize_t seam_transfer(enum seam_call call, size_t n)
{
    if (!seam_fails(call))
        return (ssize_t)n;
    if (seam_plan.err == SEAM_NONE)
        return 0;
    return seam_plan.err == SEAM_SHORT && n > 0 ? 1 : -1;
}

ssize_t __real_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags)
{
    ssize_t part = seam_transfer(SEAM_recv, n);

    return part < 0 ? -1 : __real_recv(fd, buf, (size_t)part, flags);
}

ssize_t __real_preadv64v2(int fd, const struct iovec *iov, int count, off_t off, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t off, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t off, int flags)
{
    struct iovec part = iov[0];
    ssize_t n = seam_transfer(SEAM_preadv64v2, part.iov_len);

    part.iov_len = (size_t)n;
    return n < 0 ? -1 : __real_preadv64v2(fd, &part, count, off, flags); /* count is always 1 */
}

ssize_t __real_sendfile64(int to, int from, off_t *off, size_t n);
ssize_t __wrap_sendfile64(int to, int from, off_t *off, size_t n);
ssize_t __wrap_sendfile64(int to, int from, off_t *off, size_t n)
{
    ssize_t part = seam_transfer(SEAM_sendfile64, n);

    return part < 0 ? -1 : __real_sendfile64(to, from, off, (size_t)part);
}

ssize_t __real_splice(int from, off_t *off, int to, off_t *to_off, size_t n, unsigned flags);
ssize_t __wrap_splice(int from, off_t *off, int to, off_t *to_off, size_t n, unsigned flags);
ssize_t __wrap_splice(int from, off_t *off, int to, off_t *to_off, size_t n, unsigned flags)
{
    ssize_t part = seam_transfer(SEAM_splice, n);

    return part < 0 ? -1 : __real_splice(from, off, to, to_off, (size_t)part, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct msghdr shorter = *msg;
    struct iovec one = msg->msg_iov[0];

    if (!seam_fails(SEAM_sendmsg))
        return __real_sendmsg(fd, msg, flags);
    if (seam_plan.err != SEAM_SHORT)
        return -1;
    one.iov_len = one.iov_len ? 1 : 0;
    shorter.msg_iov = &one;
    shorter.msg_iovlen = 1;
    return __real_sendmsg(fd, &shorter, flags);
}

/* send() sends one piece; to the tests it is the same as sendmsg(). */
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags)
{
    struct iovec one = {(void *)(uintptr_t)bytes, n};
    const struct msghdr msg = {.msg_iov = &one, .msg_iovlen = 1};

    return __wrap_sendmsg(fd, &msg, flags);
}

/* A write to an eventfd fails only if its counter is full; a write to a file can fail.  The
 * server's complaints on stderr would hide the test's own words, so they are dropped. */
ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);
int __real_fstat64(int fd, struct stat *st);
ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
    struct stat st;
    ssize_t part = (ssize_t)n;

    if (fd == STDERR_FILENO && !seam_exempt)
        return part;
    if (__real_fstat64(fd, &st) == 0 && S_ISREG(st.st_mode))
        part = seam_transfer(SEAM_write, n);
    return part < 0 ? -1 : __real_write(fd, buf, (size_t)part);
}

/* The descriptor is closed even if the call fails (close(2)). */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    bool fails = seam_fails(SEAM_close);
    int result = __real_close(fd);

    if (!fails)
        return result;
    errno = seam_plan.err;
    return -1;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    unsigned mode = 0;
    va_list ap;

    va_start(ap, flags);
    if (flags & (O_CREAT | O_TMPFILE))
        mode = va_arg(ap, unsigned);
    va_end(ap);
    return seam_fails(SEAM_open64) ? -1 : __real_open64(path, flags, mode);
}

int __real_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...)
{
    va_list ap;
    void *arg;

    va_start(ap, what);
    arg = va_arg(ap, void *);
    va_end(ap);
    return seam_fails(SEAM_ioctl) ? -1 : __real_ioctl(fd, what, arg);
}

/* openat2(2) and other calls that this libc has no name for: up to six arguments.  Valgrind 3.19
 * does not know openat2(); for a folder without links openat() does the same. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long arg[6];
    va_list ap;

    va_start(ap, number);
    for (unsigned i = 0; i < 6; i++)
        arg[i] = va_arg(ap, long);
    va_end(ap);
    if (seam_fails(SEAM_syscall))
        return -1;
    if (atomic_load(&seam_no_openat2) && number == SYS_openat2)
        return openat((int)arg[0], (const char *)arg[1], (int)((struct open_how *)arg[2])->flags);
    return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* --- Memory: failing, and counted ------------------------------------------------------------- */

void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    void *mem =
        seam_fails(SEAM_mmap64) ? MAP_FAILED : __real_mmap64(at, n, prot, flags, fd, off);

    atomic_fetch_add(&seam_memory, mem != MAP_FAILED);
    return mem;
}

int __real_munmap(void *mem, size_t n);
int __wrap_munmap(void *mem, size_t n);
int __wrap_munmap(void *mem, size_t n)
{
    (void)seam_fails(SEAM_munmap); /* only counted: it fails only for wrong arguments */
    atomic_fetch_sub(&seam_memory, 1);
    return __real_munmap(mem, n);
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    void *mem = seam_fails(SEAM_malloc) ? NULL : __real_malloc(n);

    atomic_fetch_add(&seam_memory, mem != NULL);
    return mem;
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    void *mem = seam_fails(SEAM_calloc) ? NULL : __real_calloc(n, size);

    atomic_fetch_add(&seam_memory, mem != NULL);
    return mem;
}

void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n)
{
    void *mem = seam_fails(SEAM_aligned_alloc) ? NULL : __real_aligned_alloc(align, n);

    atomic_fetch_add(&seam_memory, mem != NULL);
    return mem;
}

void *__real_realloc(void *old, size_t n);
void *__wrap_realloc(void *old, size_t n);
void *__wrap_realloc(void *old, size_t n)
{
    bool fresh = !old;
    void *mem = seam_fails(SEAM_realloc) ? NULL : __real_realloc(old, n);

    atomic_fetch_add(&seam_memory, mem != NULL && fresh);
    return mem;
}

void __real_free(void *mem);
void __wrap_free(void *mem);
void __wrap_free(void *mem)
{
    atomic_fetch_sub(&seam_memory, mem != NULL);
    __real_free(mem);
}

#endif
