/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* folder.c - the entries of a folder: described, gathered, sorted, or streamed.
 *
 * A link is shown as what a visitor gets through it.  An entry takes 40 bytes and its name, a
 * quarter more while growing, so 100,000 names of 20 bytes need about 7.5 MB and the longest ones
 * 37 MB.  A folder is streamed if it has more entries than rules->entries_max, or if there is no
 * memory.
 *
 * A folder is read in slices, so that between two of them the host can check its client and serve
 * others.  The first slice is read at once, and most folders need no more than that.  A longer one
 * waits until the head of its answer has been sent.  Only then can the system know that the client
 * has gone: a close and a half-close look alike until something is sent, and a client that
 * half-closed wants its answer.
 */
#include "folder.h"

enum { SLICE_NAMES = 4096 /* five milliseconds */ };

/* --- Reading ---------------------------------------------------------------------------------- */

/* Fills e from its name; false: the file is gone. */
static bool describe(struct folder *f, const struct folder_name *d, struct listing_entry *e)
{
    unsigned type = (unsigned)d->type << 12;
    struct folder_stat st, target;
    int err = f->ops->stat(f, d->name, false, &st);

    if (err) {
        e->unknown = true; /* a folder that may be read but not entered gives names only */
        st = (struct folder_stat){.mode = type, .foreign = true};
    }
    e->kind = (uint8_t)docroot_kind(st.mode);
    e->link = e->kind == LISTING_DEAD;
    if (e->link && !err) {
        int found;

        memcpy(f->path + f->listing.path.len, d->name, e->name.len + 1);
        found = f->ops->stat(f, f->path + 1, true, &target);
        if (!found)
            st = target;
        e->unknown = found == -EXDEV;
        e->kind = (uint8_t)(e->unknown ? LISTING_FILE : docroot_kind(st.mode));
    }
    e->size = e->kind == LISTING_FILE ? st.size : 0;
    e->mtime_s = st.mtime_s;
    f->plain = f->plain && !e->link && e->kind <= LISTING_FILE && !st.foreign;
    return err != -ENOENT;
}

bool folder_shows(const struct docroot_rules *rules, const struct listing_view *view,
                  struct slice name)
{
    return !slice_is(name, ".") && !slice_is(name, "..") && name.len <= FOLDER_NAME_BYTES_MAX &&
           (rules->hidden || !name_is_hidden(name)) && listing_match(view, name);
}

enum reading { READ_ENTRY, READ_EMPTY /* the buffer */, READ_PAUSE /* the budget is used up */ };

/* Reads another buffer of names; false: the end, or f->error. */
static bool read_names(struct folder *f)
{
    long n = f->ops->read(f, f->again);

    f->error = n < 0 && n != -ENOENT ? (int)n : 0; /* -ENOENT: the folder was removed */
    f->dents_len = n > 0 ? (size_t)n : 0;
    f->dents_at = 0;
    f->again = false;
    return n > 0;
}

/* The next entry to be shown, whose name lies in the buffer. */
static enum reading read_entry(struct folder *f, struct listing_entry *e)
{
    for (; f->dents_at < f->dents_len; f->budget--) {
        const struct folder_name *d;

        if (f->budget == 0)
            return READ_PAUSE;
        d = (const struct folder_name *)(f->dents + f->dents_at);
        f->dents_at += d->bytes;
        *e = (struct listing_entry){.name = {d->name, strlen(d->name)}};
        if (!folder_shows(f->rules, &f->listing.view, e->name))
            continue;
        if (f->stage == FOLDER_STREAMED && f->seen < f->listing.view.offset) {
            f->seen++;
            continue;
        }
        if (describe(f, d, e)) {
            f->budget--;
            return READ_ENTRY;
        }
    }
    return READ_EMPTY;
}

/* --- Streamed --------------------------------------------------------------------------------- */

static bool next_streamed(void *ctx, struct listing_entry *e)
{
    struct folder *f = ctx;

    f->listing.dry = f->next == f->end && !f->ended;
    if (f->next == f->end)
        return false;
    *e = f->batch[f->next++];
    return true;
}

/* Too many entries to sort: begins again and passes entries on as they come. */
static void stream(struct folder *f)
{
    f->ops->forget(f, false);
    f->stage = FOLDER_STREAMED;
    f->listing.streamed = true;
    f->listing.entry = next_streamed;
    f->dents_at = f->dents_len = 0;
    f->again = true;
}

/* The next entries, as far as their names are in one buffer.  Reading stops at the first entry
 * after the page. */
static int refill(struct folder *f)
{
    const struct listing_view *v = &f->listing.view;

    f->next = f->end = 0;
    if (f->dents_at == f->dents_len && !read_names(f)) {
        f->ended = true;
        return f->error;
    }
    f->budget = (unsigned)f->batch_max; /* so no more entries than that */
    while (read_entry(f, &f->batch[f->end]) == READ_ENTRY) {
        if (v->limit && f->seen - v->offset == v->limit) {
            f->ended = f->listing.more = true;
            break;
        }
        f->seen++;
        f->end++;
    }
    return f->end || f->ended ? 0 : -EINPROGRESS;
}

/* --- Gathering -------------------------------------------------------------------------------- */

static struct listing_entry *entry_at(const struct roll *r, size_t i)
{
    return (struct listing_entry *)r->entries.mem + i;
}

static size_t count_of(const struct roll *r)
{
    return r->entries.used / sizeof(struct listing_entry);
}

/* At least `step` bytes more.  -EAGAIN: there is no memory, or all listings have too much. */
static int grow(struct folder *f, struct folder_array *array, size_t step)
{
    const size_t unit = sizeof(struct listing_entry);
    size_t more = array->room / 4 / unit * unit + step;
    void *mem = f->ops->grow(f, array, more);

    if (!mem)
        return -EAGAIN;
    array->mem = mem;
    array->room += more;
    return 0;
}

/* name.ptr is set when all names are there, because until then they may move. */
static int add(struct folder *f, const struct listing_entry *e)
{
    struct folder_array *entries = &f->roll->entries, *names = &f->roll->names;
    int err = 0;

    if (entries->room - entries->used < sizeof(*e))
        err = grow(f, entries, 64 * sizeof(*e));
    if (!err && names->room - names->used < e->name.len)
        err = grow(f, names, 4096); /* the longest name fits */
    if (err)
        return err;
    memcpy((char *)names->mem + names->used, e->name.ptr, e->name.len);
    names->used += e->name.len;
    memcpy((char *)entries->mem + entries->used, e, sizeof(*e));
    entries->used += sizeof(*e);
    listing_count(&f->roll->totals, e);
    return 0;
}

/* --- Sorting ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b, void *view)
{
    return listing_compare(view, a, b);
}

/* Items are sorted in place of entries: most comparisons need only the key. */
struct item {
    uint64_t key; /* listing_key() */
    size_t at;    /* of its entry */
};

static int compare_items(const void *a, const void *b, void *roll)
{
    const struct item *x = a, *y = b;
    const struct roll *r = roll;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return listing_compare(&r->totals.view, entry_at(r, x->at), entry_at(r, y->at));
}

/* Moves each entry to the place of its item: the permutation's cycles, one after the other. */
static void move_entries(struct listing_entry *entries, struct item *items, size_t count)
{
    size_t i, to, from;

    for (i = 0; i < count; i++) {
        struct listing_entry first = entries[i];

        for (to = i; (from = items[to].at) != i; to = from) {
            entries[to] = entries[from];
            items[to].at = to;
        }
        entries[to] = first;
        items[to].at = to;
    }
}

static void sort(struct folder *f, struct roll *r)
{
    struct listing_entry *e = entry_at(r, 0);
    size_t count = count_of(r), i, start;
    struct folder_sort entries = {e, count, sizeof(*e), compare, &r->totals.view};
    struct folder_array mem = {.mem = NULL};
    struct item *items;

    if (count < 2)
        return;
    if (grow(f, &mem, count * sizeof(*items))) {
        f->ops->sort(&entries);
        return;
    }
    items = mem.mem;
    for (i = 0, start = e->name.len; i < count; i++) {
        size_t same = listing_start(e->name, e[i].name);

        start = same < start ? same : start;
    }
    for (i = 0; i < count; i++)
        items[i] = (struct item){listing_key(&r->totals.view, &e[i], start), i};
    f->ops->sort(&(struct folder_sort){items, count, sizeof(*items), compare_items, r});
    move_entries(e, items, count);
    f->ops->drop(f, &mem);
}

static bool next_sorted(void *ctx, struct listing_entry *e)
{
    struct folder *f = ctx;

    if (f->next == f->end)
        return false;
    *e = *entry_at(f->roll, f->next++);
    return true;
}

/* Makes the page's first entry the next one. */
static void turn_to_page(struct folder *f)
{
    const struct listing_view *v = &f->listing.view;
    size_t count = count_of(f->roll);

    f->next = v->offset < count ? v->offset : count;
    f->end = v->limit && v->limit < count - f->next ? f->next + v->limit : count;
    f->listing.more = f->end < count;
}

/* The roll is complete. */
static int sorted(struct folder *f)
{
    const struct listing *totals = &f->roll->totals;

    f->stage = FOLDER_SORTED;
    f->listing.folders = totals->folders;
    f->listing.files = totals->files;
    f->listing.others = totals->others;
    f->listing.bytes = totals->bytes;
    f->listing.entry = next_sorted;
    turn_to_page(f);
    f->ops->done(f);
    return 0;
}

/* Reads that many names.  0: the listing can be sent; -EINPROGRESS: there are more. */
static int gather(struct folder *f, unsigned names)
{
    size_t at = 0, i;

    f->budget = names;
    do {
        struct listing_entry e;
        enum reading got;

        while ((got = read_entry(f, &e)) == READ_ENTRY) {
            if (count_of(f->roll) == f->rules->entries_max || add(f, &e)) {
                stream(f);
                return -EINPROGRESS;
            }
        }
        if (got == READ_PAUSE)
            return -EINPROGRESS;
    } while (read_names(f));
    if (f->error)
        return f->error;
    for (i = 0; i < count_of(f->roll); i++) {
        entry_at(f->roll, i)->name.ptr = (const char *)f->roll->names.mem + at;
        at += entry_at(f->roll, i)->name.len;
    }
    sort(f, f->roll);
    f->roll->plain = f->plain;
    return sorted(f);
}

/* --- Slices ----------------------------------------------------------------------------------- */

int folder_look(struct folder *f, const struct http_ask *ask, unsigned names)
{
    int err;

    memcpy(f->path, ask->path.ptr, ask->path.len);
    f->listing.path = (struct slice){f->path, ask->path.len};
    listing_view_read(&f->listing.view, ask);
    f->listing.ctx = f;
    f->listing.archive = f->rules->archive;
    f->listing.upload = docroot_takes_uploads(f->rules, ask->path);
    f->plain = true;
    f->stage = FOLDER_GATHERING;
    err = f->ops->begin(f, false);
    if (!err)
        err = gather(f, names);
    if (err != -EINPROGRESS)
        return err;
    if (f->stage == FOLDER_STREAMED)
        return 0;
    f->ops->forget(f, true);
    f->stage = FOLDER_LONG;
    return 0;
}

/* Reads the folder from the beginning, unless another listing has done so since this one was
 * requested. */
static int begin(struct folder *f)
{
    int err = f->ops->begin(f, true);

    if (err)
        return err < 0 ? err : sorted(f);
    f->stage = FOLDER_GATHERING;
    f->plain = true;
    f->dents_at = f->dents_len = 0;
    f->again = true;
    return -EINPROGRESS;
}

/* An entry that listing_next() holds is written before the next batch is read: its name lies in
 * dents. */
bool folder_ready(const struct folder *f)
{
    return f->error || f->stage == FOLDER_SORTED ||
           (f->stage == FOLDER_STREAMED &&
            (f->listing.holds || f->next < f->end || f->ended));
}

bool folder_long(const struct folder *f)
{
    return f->stage == FOLDER_LONG || f->stage == FOLDER_GATHERING;
}

int folder_step(struct folder *f)
{
    if (!f->error && f->ops->gone && f->ops->gone(f))
        f->error = -ECONNRESET;
    if (folder_ready(f))
        return f->error;
    if (f->stage == FOLDER_LONG)
        f->error = begin(f);
    else
        f->error = f->stage == FOLDER_GATHERING ? gather(f, SLICE_NAMES) : refill(f);
    if (f->error != -EINPROGRESS)
        return f->error;
    f->error = 0;
    return -EINPROGRESS;
}

size_t folder_next(struct folder *f, char *buf, size_t cap)
{
    size_t n;

    do {
        while (!folder_ready(f)) {
            if (f->helped || !f->offered) {
                f->offered = true;
                return SOURCE_LATER;
            }
            (void)folder_step(f);
        }
        if (f->error)
            return SOURCE_FAILED;
        f->listing.dry = false;
        n = listing_next(&f->listing, buf, cap);
    } while (n == 0 && f->listing.dry);
    return n;
}

void folder_rewind(struct folder *f)
{
    listing_rewind(&f->listing);
    turn_to_page(f);
}
