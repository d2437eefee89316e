/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* docroot.c - from a path to the source that answers it, through the host's look-ups of names.
 *
 * A file's compressed siblings are looked for one after the other, the best first.  At most three
 * things are held at once: the requested file, the best one so far and the one being looked at.
 */
#include "docroot.h"
#include "types.h"

/* --- What both hosts say ---------------------------------------------------------------------- */

int docroot_error(int err)
{
    switch (err) {
    case -ENOTDIR: /* a file used as a folder */
        return -ENOENT;
    case -EPERM:
    case -EXDEV:   /* leaves the root, or what is mounted there */
    case -ELOOP:   /* a magic link, or links without end */
    case -ENXIO:   /* a socket; a device without a driver */
    case -ENODEV:
        return -EACCES;
    case -EINPROGRESS: /* from a file system that returns any errno: to the core it means "later" */
        return -EIO;
    default:
        return err;
    }
}

enum listing_kind docroot_kind(unsigned mode)
{
    switch (mode & 0170000) { /* S_IFMT and what it may be, the same in user space and the kernel */
    case 0040000: return LISTING_FOLDER;
    case 0100000: return LISTING_FILE;
    case 0010000: return LISTING_FIFO;
    case 0140000: return LISTING_SOCKET;
    case 0120000: return LISTING_DEAD;
    default: return LISTING_DEVICE;
    }
}

struct slice docroot_beneath(const struct docroot_rules *rules, struct slice root,
                             struct slice thing)
{
    const struct slice none = {NULL, 0};

    if (root.len == 1) /* "/" */
        root.len = 0;
    if (thing.len < root.len || memcmp(thing.ptr, root.ptr, root.len) != 0)
        return none;
    thing.ptr += root.len;
    thing.len -= root.len;
    if (thing.len == 0)
        return thing;
    if (*thing.ptr != '/' || (!rules->hidden && path_is_hidden(thing)))
        return none;
    return (struct slice){thing.ptr + 1, thing.len - 1};
}

bool docroot_compresses(const char *type, uint64_t size, uint64_t bytes_max)
{
    return size >= COMPRESS_BYTES_MIN && size <= bytes_max && type_compresses(type);
}

int docroot_settle(struct docroot_rules *rules)
{
    if (!rules->index)
        rules->index = "index.html";
    if (!rules->entries_max)
        rules->entries_max = DOCROOT_ENTRIES_MAX;
    rules->index_len = strlen(rules->index);
    if (rules->index_len > NAME_BYTES_MAX || memchr(rules->index, '/', rules->index_len))
        return -EINVAL;
    return 0;
}

bool docroot_takes_uploads(const struct docroot_rules *rules, struct slice path)
{
    size_t n = rules->upload ? strlen(rules->upload) : 0;

    return n && path.len >= n && memcmp(path.ptr, rules->upload, n) == 0;
}

/* --- Files ------------------------------------------------------------------------------------ */

static bool is_before(int64_t s, uint32_t ns, int64_t than_s, uint32_t than_ns)
{
    return s < than_s || (s == than_s && ns < than_ns);
}

/* Some programs (brotli) give what they make the time of its original, cut to whole seconds.  Such
 * a sibling is older only if the original has changed since; the kernel alone sets ctime. */
static bool is_older(const struct source *a, const struct source *b)
{
    if (a->mtime_s == b->mtime_s && a->mtime_ns == 0)
        return b->mtime_ns > 0 && is_before(a->ctime_s, a->ctime_ns, b->ctime_s, b->ctime_ns);
    return is_before(a->mtime_s, a->mtime_ns, b->mtime_s, b->mtime_ns);
}

/* Looks up the sibling in that coding.  0: it may stand for the original; -ENOENT: there is none;
 * others: it may not, or could not be looked up. */
static int look_sibling(struct docroot_search *f, enum coding coding, struct docroot_thing *sibling)
{
    const char *suffix = http_coding_suffix(coding);
    int err;

    memcpy(f->path + f->len, suffix, strlen(suffix) + 1);
    err = f->ops->look(f, f->path, sibling);
    f->path[f->len] = '\0';
    if (!err && is_older(&sibling->source, &f->thing[0].source)) {
        f->ops->put(f, sibling);
        return -EACCES;
    }
    return err;
}

/* Whether a sibling may exist that cannot be looked up now. */
static bool is_short(int err)
{
    return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

/* The thing that the client prefers: thing[0], the file itself, or a sibling, which is held too.
 * Siblings that the client does not prefer are looked for only until it is known that the answer
 * varies. */
static struct docroot_thing *choose_coding(struct docroot_search *f)
{
    struct docroot_thing *best = &f->thing[0], *spare = &f->thing[1];
    const uint16_t *q = f->ask->q;
    bool alone = true; /* there is no sibling of any kind */
    bool vary = false;
    enum coding coding;

    /* A client that refuses the file itself gets 406 only after its siblings were looked for. */
    if (f->ops->alone && f->ops->alone(f, false) && q[CODING_IDENTITY])
        return best;
    for (coding = CODINGS - 1; coding > CODING_IDENTITY; coding--) {
        bool better = http_prefers(q, coding, best->source.coding);
        int err;

        if (vary && !better)
            continue;
        err = look_sibling(f, coding, spare);
        alone = alone && err == -ENOENT;
        vary = vary || !err || is_short(err);
        if (!err && better) {
            struct docroot_thing *worse = best;

            best = spare;
            best->source.coding = coding;
            spare = worse;
        }
        if (spare == &f->thing[0]) /* stays held: it may be sent if a sibling cannot be opened */
            spare = &f->thing[2];
        else if (!err)
            f->ops->put(f, spare);
    }
    if (alone && f->ops->alone)
        (void)f->ops->alone(f, true);
    f->thing[0].source.vary = best->source.vary = vary;
    return best;
}

/* thing[0] is a regular file. */
static int found_file(struct docroot_search *f, struct source **source)
{
    struct docroot_thing *asked = &f->thing[0], *best = asked;
    const char *type = type_of(f->path, f->len);
    int err;

    if (f->ask && f->rules->precompressed && type_compresses(type) &&
        !docroot_takes_uploads(f->rules, f->ask->path))
        best = choose_coding(f);
    /* The file may be compressed for another client, or a moment later. */
    if (docroot_compresses(type, asked->source.size, f->compress_max))
        asked->source.vary = best->source.vary = true;
    asked->source.type = best->source.type = type;
    if (best->source.size == 0) /* nothing to read, so nothing to open */
        best->source.bytes = "";
    err = f->ops->open(f, asked, best, source);
    if (best != asked)
        f->ops->put(f, best);
    f->ops->put(f, asked);
    return err;
}

/* Looks f->path up. */
static int look(struct docroot_search *f)
{
    f->thing[0].kind = LISTING_DEAD;
    return f->ops->look(f, f->path, &f->thing[0]);
}

static int find_file(struct docroot_search *f, struct source **source)
{
    struct docroot_thing *thing = &f->thing[0];
    int err = look(f);

    if (!err)
        return found_file(f, source);
    if (err != -EISDIR)
        return err;
    thing->source = (struct source){.kind = SOURCE_REDIRECT};
    return f->ops->open(f, thing, thing, source);
}

/* --- Folders ---------------------------------------------------------------------------------- */

/* A folder, FIFO or device with the index's name does not keep its folder from being listed. */
static bool is_no_index(int err, enum listing_kind kind)
{
    return err == -EISDIR || err == -ENAMETOOLONG ||
           (err == -EACCES && (kind == LISTING_FIFO || kind == LISTING_DEVICE));
}

/* 0 and the index page, -ENOENT: there is none, or -errno. */
static int find_index(struct docroot_search *f, struct source **source)
{
    size_t len = f->len;
    int err;

    if (f->rules->index_len == 0)
        return -ENOENT;
    memcpy(f->path + len, f->rules->index, f->rules->index_len + 1);
    f->len += f->rules->index_len;
    err = look(f);
    if (!err)
        err = found_file(f, source);
    else if (is_no_index(err, f->thing[0].kind))
        err = -ENOENT;
    f->len = len;
    f->path[len] = '\0';
    return err;
}

static size_t no_entries(struct source *source, char *buf, size_t cap)
{
    (void)source;
    (void)buf;
    (void)cap;
    return 0;
}

static int find_listing(struct docroot_search *f, struct source **source)
{
    struct docroot_thing *folder = &f->thing[0];
    struct listing_view view;
    int err = f->ops->folder(f, f->len ? f->path : ".", folder);

    if (err)
        return err;
    listing_view_read(&view, f->ask);
    folder->source = (struct source){
        .kind = SOURCE_MADE, .type = listing_type(view.format), .next = no_entries};
    if (!f->rules->listing)
        err = -EACCES;
    else if (f->ask->head && !f->head_lists)
        err = f->ops->open(f, folder, folder, source);
    else
        err = f->ops->list(f, folder, source);
    f->ops->put(f, folder);
    return err;
}

/* --- The search ------------------------------------------------------------------------------- */

int docroot_find(struct docroot_search *f, struct source **source)
{
    struct slice path = f->ask->path;
    int err;

    if (path.len == 0 || path.len > PATH_BYTES_MAX)
        return -ENAMETOOLONG;
    if (!f->rules->hidden && path_is_hidden(path))
        return -ENOENT;
    f->len = path.len - 1;
    memcpy(f->path, path.ptr + 1, f->len);
    f->path[f->len] = '\0';
    if (path.ptr[f->len] != '/')
        return find_file(f, source);
    err = find_index(f, source);
    return err == -ENOENT ? find_listing(f, source) : err;
}

int docroot_page(struct docroot_search *f, unsigned status, struct source **source)
{
    static const char suffix[] = ".html";
    int err;

    f->len = http_decimal(f->path, status);
    memcpy(f->path + f->len, suffix, sizeof(suffix));
    f->len += sizeof(suffix) - 1;
    err = look(f);
    if (!err)
        return found_file(f, source);
    return err == -EISDIR || f->thing[0].kind != LISTING_DEAD ? -ENOENT : err;
}
