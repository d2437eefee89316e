/* SPDX-License-Identifier: MIT */
/* form.c - fuzz the reader of multipart/form-data: however a form is cut, and however much of a
 * file is taken at a time, the same files come out, and the same status.
 *
 * The first byte says how it is cut, the second how much is taken; the boundary is "b".  The files
 * are made here: what upload_write.c, upload_name.c and upload_file.c provide is replaced.
 */
#include <errno.h>
#include "../../server/upload.h"
#include "fuzz.h"

enum { NO_FILE = 1 << 20 /* a descriptor that does not exist: closing it does nothing */ };

static struct {
    unsigned seed;
    uint64_t sum; /* of the names and bytes of all files that were kept */
    uint64_t part; /* ... of the file that is being written */
} made;

static unsigned draw(unsigned below)
{
    made.seed = made.seed * 1103515245 + 12345;
    return (made.seed >> 16) % below;
}

static void add(uint64_t *sum, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *sum = (*sum ^ (unsigned char)bytes[i]) * 1099511628211u;
}

int upload_name(struct upload *u, struct slice name)
{
    if (name.len > NAME_BYTES_MAX || (name.len && *name.ptr == '.'))
        return -403;
    memcpy(u->name, name.ptr, name.len);
    u->name[name.len] = '\0';
    return 0;
}

int upload_file_open(int folder)
{
    (void)folder;
    made.part = 14695981039346656037u;
    return NO_FILE;
}

/* A byte 0xff cannot be written. */
long upload_bytes(struct loop *l, const struct conn *c, struct upload *u, struct slice bytes)
{
    size_t n = made.seed ? 1 + draw(7) : bytes.len;

    (void)l;
    (void)c;
    promise(u->file == NO_FILE && bytes.len);
    if (made.seed && draw(4) == 0)
        return -EINPROGRESS;
    n = n < bytes.len ? n : bytes.len;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)bytes.ptr[i] == 0xff)
            return -507;
    add(&made.part, bytes.ptr, n);
    return (long)n;
}

int upload_keep(struct loop *l, const struct conn *c, struct upload *u)
{
    (void)l;
    (void)c;
    promise(u->file == NO_FILE);
    if (made.seed && draw(3) == 0)
        return -EINPROGRESS;
    u->kept++;
    add(&made.sum, u->name, strlen(u->name) + 1);
    add(&made.sum, (const char *)&made.part, sizeof(made.part));
    return 0;
}

struct result {
    long status;
    uint64_t sum;
    unsigned kept;
};

/* seed 0: in one piece. */
static struct result read_form(struct upload *u, const uint8_t *bytes, size_t n, unsigned seed)
{
    static const char type[] = "multipart/form-data; boundary=b";
    struct result r = {0};
    long used = 0;

    memset(u, 0, offsetof(struct upload, path));
    u->file = -1;
    made.seed = seed;
    made.sum = 14695981039346656037u;
    promise(form_open(&u->form, (struct slice){type, sizeof(type) - 1}) == 0);
    for (size_t at = 0; at < n && (used >= 0 || used == -EINPROGRESS);) {
        size_t piece = seed ? 1 + draw(24) : n;
        char *copy;

        piece = piece < n - at ? piece : n - at;
        copy = hard_copy(bytes + at, piece);
        used = form_put(NULL, NULL, u, (struct slice){copy, piece});
        promise(used && used <= (long)piece);
        free(copy);
        at += used > 0 ? (size_t)used : 0;
    }
    r.status = used < 0 ? used : form_done(u);
    r.sum = made.sum;
    r.kept = u->kept;
    free(u->form);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct upload u;
    struct result whole, split;

    if (n < 2)
        return 0;
    whole = read_form(&u, bytes + 2, n - 2, 0);
    split = read_form(&u, bytes + 2, n - 2, bytes[0] * 256u + bytes[1] + 1u);
    promise(whole.status == split.status);
    promise(whole.sum == split.sum && whole.kept == split.kept);
    return 0;
}
