/* SPDX-License-Identifier: MIT */
/* world.h - a host for tests of answers: fake.h's, extended by every kind of representation.
 *
 *   /gz /br /zst  coded that way, of 20 bytes      /vary  plain, of 20 bytes, but others exist
 *   /huge  a file of 5 GiB     /future  changed after the Date     /old  changed before the year 1
 *   /ready  made, and in memory, of 20 bytes       /ready-gz  the same, coded that way
 *   /dir  a folder             /ENAME  the error of that name
 *
 * The arguments of the last answer() are kept.  With world.ready sources bring the fields of their
 * answer, and with world.whole all of it.
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H
#include "drive.h"

#define WORLD_DATE "Sun, 06 Nov 1994 08:49:37 GMT"
/* fake.h's sources: inode 7, times 784111777 s; only the size differs. */
#define WORLD_TAG(size) "\"7-" size "-ae1b981bc490a00-ae1b981bc490a00\""

enum { WORLD_TEXT_MAX = 256 };
#define GIB5 5368709120ull

static struct {
    unsigned answers, status;
    uint64_t body_bytes;
    unsigned fields;
    char target[WORLD_TEXT_MAX], method[WORLD_TEXT_MAX];
    char query[WORLD_TEXT_MAX], path[WORLD_TEXT_MAX];
    bool json, text, head;
    enum http_digest digest;
    uint64_t again;
    const struct conn *asker;
    unsigned page; /* the status that the site has a page for */
    enum source_kind page_kind;
    bool ready;
    char ready_fields[HTTP_FIELDS_BYTES_MAX];
    bool whole; /* with ready: whole answers, too */
    bool whole_file; /* ... whose bytes are in a file, too */
    int64_t second; /* whole answers are this many seconds older */
    struct whole ready_whole;
    char ready_bytes[2 * JOINED_BYTES_MAX];
} world;

static inline void world_copy(char out[WORLD_TEXT_MAX], struct slice s)
{
    size_t n = s.len < WORLD_TEXT_MAX - 1 ? s.len : WORLD_TEXT_MAX - 1;

    if (n)
        memcpy(out, s.ptr, n);
    out[n] = '\0';
}

static inline int world_error(struct slice path)
{
    static const struct {
        const char *path;
        int err;
    } errors[] = {
        {"/ENOENT", -ENOENT}, {"/ENAMETOOLONG", -ENAMETOOLONG}, {"/EACCES", -EACCES},
        {"/EPERM", -EPERM}, {"/EMFILE", -EMFILE}, {"/ENFILE", -ENFILE}, {"/ENOMEM", -ENOMEM},
        {"/EAGAIN", -EAGAIN}, {"/ESTALE", -ESTALE}, {"/EDQUOT", -EDQUOT},
        {"/EIO", -EIO}, {"/EINTR", -EINTR},
    };

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (slice_is(path, errors[i].path))
            return errors[i].err;
    return 0;
}

static inline struct source *world_source(struct fake *f, struct slice path)
{
    struct source *s;

    if (slice_is(path, "/huge"))
        return fake_source(f, 'f', GIB5);
    if (slice_is(path, "/dir") || slice_is(path, "/a b<\"'>&\r\n\xff"))
        return fake_source(f, 'd', 0);
    s = fake_source(f, 'p', 20);
    if (slice_is(path, "/ready") || slice_is(path, "/ready-gz"))
        s->kind = SOURCE_MADE;
    if (slice_is(path, "/gz") || slice_is(path, "/ready-gz"))
        s->coding = CODING_GZIP;
    else if (slice_is(path, "/zst"))
        s->coding = CODING_ZSTD;
    else if (slice_is(path, "/br"))
        s->coding = CODING_BR;
    else if (slice_is(path, "/vary"))
        s->vary = true;
    else if (slice_is(path, "/future"))
        s->mtime_s = 4102444800;
    else if (slice_is(path, "/old"))
        s->mtime_s = -70000000000;
    else if (s->kind != SOURCE_MADE) {
        fake_release(f, s);
        return NULL;
    }
    return s;
}

/* As if the source had been kept for a second. */
static inline void world_make_ready(struct fake *f, struct source *s)
{
    s->fields_len = http_fields_write(world.ready_fields, s, f->host.date_s + 1);
    s->fields = s->fields_len ? world.ready_fields : NULL;
    world.ready_whole.len = sizeof(world.ready_bytes);
    if (world.whole && http_whole_write(&world.ready_whole, world.ready_bytes, &f->host, s)) {
        s->whole = &world.ready_whole;
        s->file = world.whole_file ? s : NULL;
        world.ready_whole.date_s -= world.second;
        if (world.second)
            memcpy(strstr(world.ready_bytes, "200 OK"), "marked", strlen("200 OK"));
    }
}

static inline int world_find(void *site, const struct http_ask *ask, struct source **source)
{
    int err = world_error(ask->path);

    world_copy(world.path, ask->path);
    world_copy(world.query, ask->query);
    world.json = ask->json;
    world.text = ask->text;
    world.head = ask->head;
    world.digest = ask->digest;
    world.again = ask->again;
    world.asker = ask->conn;
    if (err)
        return err;
    *source = ask->path.len > PATH_BYTES_MAX - 200 ? fake_source(site, 'd', 0)
                                                   : world_source(site, ask->path);
    if (!*source)
        err = fake_find(site, ask, source);
    if (!err && world.ready)
        world_make_ready(site, *source);
    return err;
}

static inline int world_page(void *site, unsigned status, struct source **source)
{
    if (status != world.page)
        return -ENOENT;
    *source = fake_source(site, 'p', 26);
    (*source)->kind = world.page_kind;
    (*source)->type = "text/x-page";
    return 0;
}

static inline void *world_answer(void *site, const struct conn *conn, const struct http_receipt *r)
{
    world.answers++;
    world.status = r->status;
    world.body_bytes = r->body_bytes;
    world.fields = r->head->fields;
    world_copy(world.method, r->head->method_text);
    world_copy(world.target, r->head->target);
    return fake_answer(site, conn, r);
}

static inline struct fake *world_open(void)
{
    struct fake *f = fake_open();

    memset(&world, 0, sizeof(world));
    f->host.find = world_find;
    f->host.page = world_page;
    f->host.answer = world_answer;
    f->host.date = WORLD_DATE;
    return f;
}

#endif
