/* SPDX-License-Identifier: MIT */
/* files.c - the files that bodies are compared with (--check), in memory before the run begins.
 *
 * Large ones are mapped, and stay so until the program ends.  Small ones are copied, many into one
 * block: a process may have some sixty thousand mappings, and a folder more files than that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

int files_load(struct plan *p, const char *path, struct slice *bytes)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), err = 0;
    struct stat st;
    void *map;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0) {
        err = -errno;
    } else if (!S_ISREG(st.st_mode)) {
        err = -EISDIR;
    } else if (st.st_size <= SMALL_BYTES) {
        bytes->len = (size_t)st.st_size;
        err = copy(p, fd, bytes);
    } else {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        err = map == MAP_FAILED ? -errno : 0;
        *bytes = (struct slice){err ? NULL : map, (size_t)st.st_size};
    }
    close(fd);
    if (err)
        *bytes = (struct slice){NULL, 0};
    return err;
}

int files_target(struct plan *p, struct target *t, bool may_lack)
{
    char path[FILE_PATH_BYTES];
    int err = files_path(p, t->url, path);

    if (err && !may_lack) {
        say_error("%s: its path is none", t->url);
        return EXIT_USAGE;
    }
    err = err ? err : files_load(p, path, &t->body);
    if (!err || may_lack)
        return 0;
    say_error("--check: no file %s to compare %s with: %s", path, t->url,
              err == -EISDIR ? "it is not a file" : say_why(err));
    return EXIT_USAGE;
}

void files_free(struct plan *p)
{
    struct block *next;

    for (struct block *b = p->files; b; b = next) {
        next = b->next;
        free(b);
    }
}
