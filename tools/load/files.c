/* SPDX-License-Identifier: MIT */
/* files.c - the files that bodies are compared with (--check), in memory before the run begins.
 *
 * Large files are mapped, and stay so until the program ends.  Small files are copied, many into
 * one block: a process may have some sixty thousand mappings, and a folder more files than that.  A
 * folder may also be larger than memory: beyond a bound only the digest of a file is kept.  A mix
 * asks for parts of files, which a digest cannot check, so it keeps all files in memory.
 *
 * A file may change while answers are compared with it.  The server is not wrong then, and
 * files_blame() gives such an answer a fault of its own.  A file that becomes shorter takes pages
 * from its mapping, and a thread that touches them gets SIGBUS: fill_hole().
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../../base/say.h"
#include "workload.h"

enum {
    SMALL_BYTES = 64 * 1024,
    HELD_BYTES_MAX = 256 << 20, /* of small files; beyond it digests */
    MAPPED_MAX = 1 << 15        /* of the 65,530 mappings of a process; beyond it digests */
};

int files_path(const struct plan *p, const char *url, char path[FILE_PATH_BYTES])
{
    char decoded[PATH_BYTES_MAX];
    struct url u;
    struct slice raw;
    long n;

    if (url_parse(&u, url) != NULL)
        return -EINVAL;
    raw = (struct slice){u.path.ptr, 0};
    while (raw.len < u.path.len && raw.ptr[raw.len] != '?')
        raw.len++;
    n = path_decode(raw, decoded);
    if (n < 0)
        return -EINVAL;
    snprintf(path, FILE_PATH_BYTES, "%s%.*s%s", p->opt->check, (int)n, decoded,
             decoded[n - 1] == '/' ? "index.html" : "");
    return 0;
}

static int copy(struct plan *p, int fd, struct slice *bytes)
{
    char *to = plan_keep(p, bytes->len);
    size_t off = 0;
    ssize_t n = 1;

    p->held_bytes += bytes->len;
    for (; to && off < bytes->len && n > 0; off += n > 0 ? (size_t)n : 0)
        n = read(fd, to + off, bytes->len - off);
    bytes->ptr = to;
    bytes->len = off; /* it may have become shorter */
    return !to ? -ENOMEM : n < 0 ? -errno : 0;
}

/* Puts zeros in place of the page that is gone: the comparison goes on and, where it matters, ends
 * in a difference, which files_blame() judges.  This costs nothing as long as no file is cut,
 * whereas a jump out of each comparison, or a copy of the file, would.  A handler may make the bare
 * system call; two threads that fall into the same hole both fill it with zeros.  Any other SIGBUS
 * ends the program, because the instruction is tried again. */
static void fill_hole(int number, siginfo_t *info, void *context)
{
    const uintptr_t bytes = (uintptr_t)getpagesize(), page = (uintptr_t)info->si_addr & -bytes;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

    (void)context;
    if (info->si_code != BUS_ADRERR ||
        syscall(SYS_mmap, page, bytes, PROT_READ, flags, -1L, 0L) < 0)
        signal(number, SIG_DFL);
}

static int map(struct plan *p, int fd, struct slice *bytes)
{
    struct sigaction action = {.sa_sigaction = fill_hole, .sa_flags = SA_SIGINFO};
    void *at = mmap(NULL, bytes->len, PROT_READ, MAP_PRIVATE, fd, 0);

    bytes->ptr = at == MAP_FAILED ? NULL : at;
    p->mapped++;
    return at == MAP_FAILED || sigaction(SIGBUS, &action, NULL) != 0 ? -errno : 0;
}

/* Reads the file's bytes, and keeps only their digest and number. */
static int digest(struct plan *p, int fd, struct file *f)
{
    struct reference *known = plan_keep(p, sizeof(*known));
    struct digest d = {0};
    char piece[16 * 1024];
    uint64_t bytes = 0; /* it may have become shorter */
    ssize_t n;

    if (!known)
        return -ENOMEM;
    while ((n = read(fd, piece, sizeof(piece))) > 0) {
        digest_add(&d, piece, (size_t)n);
        bytes += (size_t)n;
    }
    *known = (struct reference){
        .known = true, .of_file = true, .bytes = bytes, .digest = digest_end(&d)};
    f->bytes.len = bytes;
    f->digest = known;
    p->digests = true;
    return n < 0 ? -errno : 0;
}

static int take(struct plan *p, int fd, struct file *f)
{
    bool small = f->bytes.len <= SMALL_BYTES;

    if (!p->mix && (small ? p->held_bytes + f->bytes.len > HELD_BYTES_MAX
                          : p->mapped == MAPPED_MAX))
        return digest(p, fd, f);
    return small ? copy(p, fd, &f->bytes) : map(p, fd, &f->bytes);
}

/* Identifies the file and its state: a copy may keep the other times, but not the time of
 * change. */
uint64_t files_mark(const struct stat *st)
{
    const uint64_t parts[] = {st->st_dev, st->st_ino, (uint64_t)st->st_size,
                              (uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec};
    uint64_t mark = 0;

    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        mark = (mark ^ parts[i]) * 0x9e3779b97f4a7c15ull;
    return mark;
}

int files_load(struct plan *p, const char *path, struct file *f)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), err = 0;
    struct stat st;

    *f = (struct file){.bytes = {NULL, 0}};
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0) {
        err = -errno;
    } else if (!S_ISREG(st.st_mode)) {
        err = -EISDIR;
    } else {
        f->mark = files_mark(&st);
        f->bytes.len = (size_t)st.st_size;
        err = take(p, fd, f);
    }
    close(fd);
    if (err)
        *f = (struct file){.bytes = {NULL, 0}};
    return err;
}

int files_target(struct plan *p, struct target *t, bool may_lack)
{
    char path[FILE_PATH_BYTES];
    struct file f = {.bytes = {NULL, 0}};
    int err = files_path(p, t->url, path);

    if (err && !may_lack) {
        say_error("--check: the path of %s names no file", t->url);
        return EXIT_USAGE;
    }
    err = err ? err : files_load(p, path, &f);
    t->has_body = !err;
    t->body = f.bytes;
    t->file = f.digest;
    t->mark = f.mark;
    if (!err || may_lack)
        return 0;
    say_error("--check: no file %s to compare %s with: %s", path, t->url,
              err == -EISDIR ? "it is not a file" : say_why(err));
    return EXIT_USAGE;
}
