/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* listing.c - a folder's listing in pieces: the order of entries, and the formats for machines.
 *
 * A format is a table of steps, each writing one piece that fits a chunk: the row of an entry, one
 * component of the path.  A step that does not fit is undone and repeated in the next buffer, so
 * that rows are never cut.  listing_view.c reads what is asked for, listing_html.c has the format
 * for people, listing_out.c the escaping.
 */
#include "byte.h"
#include "listing_out.h"

static bool digit_at(struct slice s, size_t i)
{
    return i < s.len && byte_is(s.ptr[i], BYTE_DIGIT);
}

/* Compares the numbers at *i and *j by value, whatever their length; moves *i and *j behind
 * them. */
static int compare_numbers(struct slice a, size_t *i, struct slice b, size_t *j)
{
    int first = 0; /* the first digit that differs decides if the lengths do not */

    while (*i < a.len && a.ptr[*i] == '0')
        (*i)++;
    while (*j < b.len && b.ptr[*j] == '0')
        (*j)++;
    for (; digit_at(a, *i) && digit_at(b, *j); (*i)++, (*j)++) {
        if (!first)
            first = a.ptr[*i] - b.ptr[*j];
    }
    if (digit_at(a, *i) || digit_at(b, *j))
        return digit_at(a, *i) ? 1 : -1;
    return first;
}

size_t listing_start(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len, n = 0;
    uint64_t x, y;

    for (; n + sizeof(x) <= len; n += sizeof(x)) {
        memcpy(&x, a.ptr + n, sizeof(x));
        memcpy(&y, b.ptr + n, sizeof(y));
        if (x != y)
            break;
    }
    while (n < len && a.ptr[n] == b.ptr[n])
        n++;
    while (n > 0 && byte_is(a.ptr[n - 1], BYTE_DIGIT))
        n--;
    return n;
}

static int compare_names(struct slice a, struct slice b)
{
    size_t i = listing_start(a, b), j = i;
    int order;

    while (i < a.len && j < b.len) {
        if (digit_at(a, i) && digit_at(b, j))
            order = compare_numbers(a, &i, b, &j);
        else
            order = byte_lower(a.ptr[i++]) - byte_lower(b.ptr[j++]);
        if (order)
            return order;
    }
    if (i < a.len || j < b.len)
        return i < a.len ? 1 : -1;
    /* Alike except for case and leading zeros: by bytes, so that the order is total. */
    order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

int listing_compare(const struct listing_view *view, const struct listing_entry *a,
                    const struct listing_entry *b)
{
    bool folder = a->kind == LISTING_FOLDER;
    int order = 0;

    if (folder != (b->kind == LISTING_FOLDER))
        return folder ? -1 : 1;
    /* A folder's own size says nothing about what is in it. */
    if (view->sort == LISTING_BY_SIZE && !folder)
        order = (a->size > b->size) - (a->size < b->size);
    else if (view->sort == LISTING_BY_TIME)
        order = (a->mtime_s > b->mtime_s) - (a->mtime_s < b->mtime_s);
    else if (view->sort == LISTING_BY_NAME)
        order = compare_names(a->name, b->name);
    if (order)
        return view->descending ? -order : order;
    return compare_names(a->name, b->name);
}

enum { KEY_DIGITS_MAX = 255 }; /* a byte */

/* A key's bytes, the first one highest. */
struct key {
    uint64_t bytes;
    unsigned room; /* bits */
};

static void key_put(struct key *k, unsigned byte)
{
    k->room -= 8;
    k->bytes |= (uint64_t)byte << k->room;
}

/* A number is '0', how many digits it has, and the digits: that sorts as numbers do, and among
 * other characters where a digit does. */
static size_t key_put_number(struct key *k, struct slice s, size_t i)
{
    size_t digits = 0;

    while (digit_at(s, i) && s.ptr[i] == '0')
        i++;
    while (digit_at(s, i + digits))
        digits++;
    key_put(k, '0');
    if (k->room)
        key_put(k, digits < KEY_DIGITS_MAX ? (unsigned)digits : KEY_DIGITS_MAX);
    if (digits >= KEY_DIGITS_MAX) /* the key says no more */
        k->room = 0;
    for (; digits && k->room; digits--)
        key_put(k, (unsigned char)s.ptr[i++]);
    return i + digits;
}

static uint64_t key_of_name(struct slice s, size_t i)
{
    struct key k = {0, 64};

    while (i < s.len && k.room) {
        if (byte_is(s.ptr[i], BYTE_DIGIT))
            i = key_put_number(&k, s, i);
        else
            key_put(&k, byte_lower(s.ptr[i++]));
    }
    return k.bytes;
}

uint64_t listing_key(const struct listing_view *view, const struct listing_entry *e, size_t start)
{
    static const uint64_t not_folder = (uint64_t)1 << 63;
    bool folder = e->kind == LISTING_FOLDER;
    uint64_t key;

    if (view->sort == LISTING_BY_TIME)
        key = (uint64_t)e->mtime_s ^ not_folder; /* those before 1970 come first */
    else if (view->sort == LISTING_BY_SIZE)
        key = folder ? 0 : e->size;
    else
        key = key_of_name(e->name, start);
    if (view->descending && !(view->sort == LISTING_BY_SIZE && folder))
        key = ~key;
    return key >> 1 | (folder ? 0 : not_folder);
}

/* For programs: the query for the page that follows. */
static void out_next(const struct listing *l, struct listing_out *o)
{
    struct listing_view next = l->view;

    next.offset += next.limit;
    out_query(o, &next, "&");
}

/* --- JSON ------------------------------------------------------------------------------------- */

static enum listing_step json_open(struct listing *l, struct listing_out *o)
{
    (void)l;
    out_text(o, "{\"path\":\"");
    return STEP_DONE;
}

/* A path may need more than a chunk: one character a step. */
static enum listing_step json_path(struct listing *l, struct listing_out *o)
{
    struct slice rest = {l->path.ptr + l->at, l->path.len - l->at};
    size_t len = out_utf8_len(rest);

    if (rest.len == 0)
        return STEP_DONE;
    rest.len = len ? len : 1;
    out_json(o, rest);
    if (!o->full)
        l->at += rest.len;
    return STEP_AGAIN;
}

static enum listing_step json_head(struct listing *l, struct listing_out *o)
{
    out_text(o, "\",\"sorted\":");
    out_text(o, l->streamed ? "false" : "true");
    out_text(o, ",\"entries\":[\n");
    return STEP_DONE;
}

static enum listing_step json_row(struct listing *l, struct listing_out *o)
{
    static const char *const kind[] = {"folder", "file", "fifo", "socket", "device", "dead-link"};
    const struct listing_entry *e = &l->held;
    enum listing_step step = listing_hold(l);
    struct listing_stamp stamp;

    if (step != STEP_AGAIN)
        return step;
    out_text(o, l->begun ? ",\n{\"name\":\"" : "{\"name\":\"");
    out_json(o, e->name);
    out_text(o, "\",\"href\":");
    if (listing_links(l)) {
        out_text(o, "\"./");
        out_url(o, e->name);
        out_text(o, e->kind == LISTING_FOLDER ? "/\"" : "\"");
    } else {
        out_text(o, "null");
    }
    out_text(o, ",\"kind\":\"");
    out_text(o, kind[e->kind]);
    out_text(o, e->link ? "\",\"link\":true,\"size_bytes\":" : "\",\"link\":false,\"size_bytes\":");
    if (e->kind == LISTING_FILE && !e->unknown)
        out_number(o, e->size);
    else
        out_text(o, "null");
    out_text(o, ",\"modified\":");
    if (e->unknown) {
        out_text(o, "null}");
    } else {
        listing_stamp(l, &stamp);
        out_text(o, "\"");
        out_bytes(o, stamp.date, sizeof(stamp.date));
        out_text(o, "T");
        out_bytes(o, stamp.time, sizeof(stamp.time));
        out_text(o, "Z\"}");
    }
    return listing_wrote(l, o);
}

static enum listing_step json_end(struct listing *l, struct listing_out *o)
{
    out_text(o, "\n],\"folders\":");
    out_number(o, l->folders);
    out_text(o, ",\"files\":");
    out_number(o, l->files);
    out_text(o, ",\"others\":");
    out_number(o, l->others);
    out_text(o, ",\"size_bytes\":");
    out_number(o, l->bytes);
    if (listing_is_page(&l->view)) {
        out_text(o, ",\"next\":");
        out_text(o, l->more ? "\"" : "null");
        if (l->more) {
            out_next(l, o);
            out_text(o, "\"");
        }
    }
    out_text(o, "}\n");
    return STEP_DONE;
}

/* --- Text: one line an entry: kind, bytes, time, name; columns for cut, sort and awk ---------- */

static enum listing_step text_row(struct listing *l, struct listing_out *o)
{
    static const char kind[] = "d-psbl"; /* as ls -l has them */
    const struct listing_entry *e = &l->held;
    char digits[20];
    struct listing_out size = {digits, 0, sizeof(digits), false};
    enum listing_step step = listing_hold(l);
    struct listing_stamp stamp;

    if (step != STEP_AGAIN)
        return step;
    if (e->kind == LISTING_FILE && !e->unknown)
        out_number(&size, e->size);
    else
        out_text(&size, "-");
    out_bytes(o, kind + e->kind, 1);
    out_text(o, " ");
    if (size.len < 15)
        out_bytes(o, "               ", 15 - size.len);
    out_bytes(o, digits, size.len);
    out_text(o, "  ");
    if (e->unknown) {
        out_text(o, "-          -       ");
    } else {
        listing_stamp(l, &stamp);
        out_bytes(o, stamp.date, sizeof(stamp.date));
        out_text(o, " ");
        out_bytes(o, stamp.time, sizeof(stamp.time));
    }
    out_text(o, "  ");
    out_plain(o, e->name);
    out_text(o, e->kind == LISTING_FOLDER ? "/\n" : "\n");
    return listing_wrote(l, o);
}

static enum listing_step text_end(struct listing *l, struct listing_out *o)
{
    if (l->streamed)
        out_text(o, "# not sorted: too many entries to sort at once\n");
    if (l->more) {
        out_text(o, "# next: ");
        out_next(l, o);
        out_text(o, "\n");
    }
    return STEP_DONE;
}

/* --- The driver ------------------------------------------------------------------------------- */

static const struct listing_format_step json_steps[] = {
    {json_open}, {json_path}, {json_head}, {json_row}, {json_end}, {NULL}};
static const struct listing_format_step text_steps[] = {{text_row}, {text_end}, {NULL}};

size_t listing_next(struct listing *l, char *buf, size_t cap)
{
    const struct listing_format_step *steps = l->view.format == LISTING_JSON ? json_steps :
        l->view.format == LISTING_TEXT ? text_steps : listing_html_steps;
    struct listing_out o = {buf, 0, cap, false};

    while (steps[l->phase].write) {
        size_t before = o.len;
        enum listing_step step = steps[l->phase].write(l, &o);

        if (o.full) {
            o.len = before;
            if (before)
                break;
            /* Alone it does not fit: our pieces are far smaller than cap, so a promise was
             * broken. */
            core_assert(cap < CHUNK_BYTES_MAX);
            return 0;
        }
        if (step == STEP_DRY)
            break;
        if (step == STEP_DONE) {
            l->phase++;
            l->at = 0;
        }
    }
    return o.len;
}

void listing_rewind(struct listing *l)
{
    l->holds = l->begun = false;
    l->phase = 0;
    l->at = 0;
}

const char *listing_type(enum listing_format format)
{
    return format == LISTING_JSON ? "application/json; charset=utf-8" :
        format == LISTING_TEXT ? "text/plain; charset=utf-8" : "text/html; charset=utf-8";
}
