/* SPDX-License-Identifier: MIT */
/* files.c - the files that bodies are compared with (--check), in memory before the run begins.
 *
 * Large ones are mapped, and stay so until the program ends.  Small ones are copied, many into one
 * block: a process may have some sixty thousand mappings, and a folder more files than that.
 *
 * A file may change while it is compared with.  Then it is not the server that is wrong, and the
 * answer is told apart: files_blame().  One that becomes shorter takes pages from its mapping, and
 * whoever touches them gets SIGBUS: fill_hole().
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

enum { BLOCK_BYTES = 1 << 20, SMALL_BYTES = 64 * 1024 };

struct block {
    struct block *next;
    size_t used;
    char bytes[BLOCK_BYTES];
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

/* Room for n bytes, of SMALL_BYTES at most. */
static char *room(struct plan *p, size_t n)
{
    struct block *b = p->files;

    if (!b || BLOCK_BYTES - b->used < n) {
        b = malloc(sizeof(*b));
        if (!b)
            return NULL;
        b->next = p->files;
        b->used = 0;
        p->files = b;
    }
    b->used += n;
    return b->bytes + b->used - n;
}

static int copy(struct plan *p, int fd, struct slice *bytes)
{
    char *to = room(p, bytes->len);
    size_t off = 0;
    ssize_t n = 1;

    for (; to && off < bytes->len && n > 0; off += n > 0 ? (size_t)n : 0)
        n = read(fd, to + off, bytes->len - off);
    bytes->ptr = to;
    bytes->len = off; /* it may have become shorter */
    return !to ? -ENOMEM : n < 0 ? -errno : 0;
}

/* Zeros in place of the page that is no more: the comparison goes on, and where it matters ends in
 * a difference, which files_blame() judges.  That costs nothing as long as no file is cut, where a
 * jump out of each comparison or a copy of the file would.  The bare system call is what a handler
 * may make; two threads that fall into the same hole both fill it with the same.  What SIGBUS else
 * means ends the program, for the instruction is tried again. */
static void fill_hole(int number, siginfo_t *info, void *context)
{
    const uintptr_t bytes = (uintptr_t)getpagesize(), page = (uintptr_t)info->si_addr & -bytes;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

    (void)context;
    if (info->si_code != BUS_ADRERR ||
        syscall(SYS_mmap, page, bytes, PROT_READ, flags, -1L, 0L) < 0)
        signal(number, SIG_DFL);
}

static int map(int fd, struct slice *bytes)
{
    struct sigaction action = {.sa_sigaction = fill_hole, .sa_flags = SA_SIGINFO};
    void *at = mmap(NULL, bytes->len, PROT_READ, MAP_PRIVATE, fd, 0);

    bytes->ptr = at == MAP_FAILED ? NULL : at;
    return at == MAP_FAILED || sigaction(SIGBUS, &action, NULL) != 0 ? -errno : 0;
}

/* Which file it was, and in which state: a copy may keep other times, but not the last one. */
static uint64_t mark_of(const struct stat *st)
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
    struct slice *bytes = &f->bytes;
    struct stat st;

    *f = (struct file){{NULL, 0}, 0};
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0) {
        err = -errno;
    } else if (!S_ISREG(st.st_mode)) {
        err = -EISDIR;
    } else {
        f->mark = mark_of(&st);
        bytes->len = (size_t)st.st_size;
        err = st.st_size <= SMALL_BYTES ? copy(p, fd, bytes) : map(fd, bytes);
    }
    close(fd);
    if (err)
        *bytes = (struct slice){NULL, 0};
    return err;
}

int files_target(struct plan *p, struct target *t, bool may_lack)
{
    char path[FILE_PATH_BYTES];
    struct file f = {{NULL, 0}, 0};
    int err = files_path(p, t->url, path);

    if (err && !may_lack) {
        say_error("--check: the path of %s names no file", t->url);
        return EXIT_USAGE;
    }
    err = err ? err : files_load(p, path, &f);
    t->body = f.bytes;
    t->mark = f.mark;
    if (!err || may_lack)
        return 0;
    say_error("--check: no file %s to compare %s with: %s", path, t->url,
              err == -EISDIR ? "it is not a file" : say_why(err));
    return EXIT_USAGE;
}

static bool has_changed(const char *path, uint64_t mark)
{
    struct stat st;

    return stat(path, &st) != 0 || mark_of(&st) != mark;
}

enum fault files_blame(const struct plan *p, const struct target *t, enum kind kind,
                       enum fault what)
{
    char path[FILE_PATH_BYTES + SUFFIX_BYTES];
    const struct file *sibling = mix_sibling(p, t, kind);
    bool of_bytes = what == FAULT_WRONG_BODY || what == FAULT_WRONG_LENGTH ||
                    what == FAULT_SHORT_BODY || what == FAULT_WRONG_FIELD;
    bool of_part = kind == KIND_RANGE && what == FAULT_BAD_STATUS; /* 416: it ends before */

    if (!p->opt->check || !t->body.ptr || !(of_bytes || of_part) ||
        files_path(p, t->url, path) != 0)
        return what;
    if (has_changed(path, t->mark))
        return FAULT_FILE_CHANGED;
    if (!sibling || !sibling->bytes.ptr)
        return what;
    memcpy(path + strlen(path), mix_suffix(kind), SUFFIX_BYTES);
    return has_changed(path, sibling->mark) ? FAULT_FILE_CHANGED : what;
}

void files_free(struct plan *p)
{
    struct block *next;

    for (struct block *b = p->files; b; b = next) {
        next = b->next;
        free(b);
    }
}
