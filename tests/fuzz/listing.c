/* SPDX-License-Identifier: MIT */
/* listing.c - any names, in any path, through every format of a folder's listing.
 *
 * Input: a byte of options, then lines (ended by 0xFE): the query, the path, and the names.
 * Promises:   - the way it is cut changes nothing;   - JSON is strict;   - text has one line for
 * each entry and no control byte;   - HTML has the same marks (< > " and ') as the same folder with
 * harmless names: no name is markup;   - the order of entries is total.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "../../core/listing.h"
#include "../unit/json.h"
#include "fuzz.h"

enum { NAMES_MAX = 64, CAP_MAX = 1 << 16, OUTPUT_MAX = 1 << 20, MARK = 0xFE };

struct input {
    struct slice query, path;
    struct listing_entry entry[NAMES_MAX];
    unsigned count, next;
};

struct output {
    size_t len;
    char bytes[OUTPUT_MAX];
};

static struct slice take_line(struct slice *rest, size_t max)
{
    const char *end = rest->len ? memchr(rest->ptr, MARK, rest->len) : NULL;
    struct slice line = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};

    rest->ptr += line.len + (end != NULL);
    rest->len -= line.len + (end != NULL);
    if (line.len > max)
        line.len = max;
    return line;
}

static void read_input(struct input *in, struct slice rest, char path[PATH_BYTES_MAX])
{
    struct slice middle;

    in->query = take_line(&rest, TARGET_BYTES_MAX);
    middle = take_line(&rest, PATH_BYTES_MAX - 2);
    path[0] = '/';
    if (middle.len)
        memcpy(path + 1, middle.ptr, middle.len);
    path[middle.len + 1] = '/';
    in->path = (struct slice){path, middle.len ? middle.len + 2 : 1};
    while (rest.len && in->count < NAMES_MAX) {
        struct listing_entry *e = &in->entry[in->count];
        unsigned char byte = (unsigned char)*rest.ptr;

        e->name = take_line(&rest, NAME_BYTES_MAX);
        e->kind = byte % 6;
        e->link = byte >> 3 & 1;
        e->unknown = byte >> 4 & 1;
        e->size = (uint64_t)byte << (byte % 56);
        e->mtime_s = (int64_t)(e->size * 0x9E3779B97F4A7C15u);
        in->count++;
    }
}

static bool next_entry(void *ctx, struct listing_entry *e)
{
    struct input *in = ctx;

    if (in->next == in->count)
        return false;
    *e = in->entry[in->next++];
    return true;
}

static void list(const struct listing *proto, struct input *in, size_t cap, struct output *out)
{
    struct listing l = *proto;
    char *buf = malloc(cap);

    promise(buf != NULL);
    l.path = in->path;
    l.entry = next_entry;
    l.ctx = in;
    in->next = 0;
    out->len = 0;
    for (;;) {
        size_t n = listing_next(&l, buf, cap);

        if (n == 0)
            break;
        promise(n <= cap && n <= OUTPUT_MAX - out->len);
        memcpy(out->bytes + out->len, buf, n);
        out->len += n;
    }
    promise(in->next == in->count);
    free(buf);
}

static size_t count_of(const struct output *out, const char *set)
{
    bool counts[256] = {false};
    size_t n = 0;

    for (; *set; set++)
        counts[(unsigned char)*set] = true;
    for (size_t i = 0; i < out->len; i++)
        n += counts[(unsigned char)out->bytes[i]];
    return n;
}

/* Make a harmless name of that length, linked if the name is; one that is not linked has overlong
 * UTF-8.  Returns false if the name is too short for that. */
static bool tame_name(const struct input *in, const struct listing_entry *e, char *name)
{
    memset(name, 'a', e->name.len);
    if (path_links(in->path, e->name, e->kind == LISTING_FOLDER))
        return true;
    if (e->name.len < 2)
        return false;
    memcpy(name, "\xC0\xAF", 2);
    return true;
}

/* Compare with the same folder, in which every byte of names and path components is an 'a'. */
static void check_marks(const struct listing *l, const struct input *in, const struct output *out)
{
    static struct input tame;
    static struct output plain;
    static char path[PATH_BYTES_MAX], names[NAMES_MAX][NAME_BYTES_MAX];
    struct listing tame_view = *l;

    tame = *in;
    for (size_t i = 0; i < in->path.len; i++)
        path[i] = in->path.ptr[i] == '/' ? '/' : 'a';
    tame.path.ptr = path;
    for (unsigned i = 0; i < in->count; i++) {
        if (!tame_name(in, &in->entry[i], names[i]))
            return;
        tame.entry[i].name.ptr = names[i];
    }
    memset(tame_view.view.filter, 'a', sizeof(tame_view.view.filter));
    list(&tame_view, &tame, CAP_MAX, &plain);
    promise(count_of(out, "<") == count_of(&plain, "<"));
    promise(count_of(out, ">") == count_of(&plain, ">"));
    promise(count_of(out, "\"") == count_of(&plain, "\""));
    promise(count_of(out, "'") == count_of(&plain, "'"));
    promise(count_of(out, "\x1b\x7f\r\x01") == 0);
}

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

static void check_order(const struct listing_view *view, const struct input *in)
{
    unsigned n = in->count < 12 ? in->count : 12;

    for (unsigned i = 0; i < n; i++) {
        for (unsigned j = 0; j < n; j++) {
            const struct listing_entry *a = &in->entry[i], *b = &in->entry[j];
            int order = sign(listing_compare(view, a, b));

            promise(order == -sign(listing_compare(view, b, a)));
            promise(i != j || order == 0);
            for (unsigned k = 0; order < 0 && k < n; k++)
                promise(listing_compare(view, b, &in->entry[k]) >= 0 ||
                     listing_compare(view, a, &in->entry[k]) < 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct output whole, cut;
    static char path[PATH_BYTES_MAX];
    static struct input in;
    struct listing l = {0};

    if (size < 1)
        return 0;
    memset(&in, 0, sizeof(in));
    read_input(&in, (struct slice){(const char *)data + 1, size - 1}, path);
    listing_view_read(&l.view, &(struct http_ask){.query = in.query, .json = data[0] % 3 == 1,
                                                  .text = data[0] % 3 == 2});
    promise(l.view.filter_len <= LISTING_FILTER_BYTES_MAX);
    l.streamed = data[0] >> 2 & 1;
    l.more = l.view.limit && data[0] >> 5 & 1;
    for (unsigned i = 0; !l.streamed && i < in.count; i++)
        listing_count(&l, &in.entry[i]);
    check_order(&l.view, &in);
    for (unsigned i = 0; i < in.count; i++)
        (void)listing_match(&l.view, in.entry[i].name);
    list(&l, &in, CAP_MAX, &whole);
    list(&l, &in, CHUNK_BYTES_MAX + (data[0] >> 3), &cut);
    promise(whole.len == cut.len && memcmp(whole.bytes, cut.bytes, whole.len) == 0);
    if (l.view.format == LISTING_HTML) {
        check_marks(&l, &in, &whole);
    } else if (l.view.format == LISTING_JSON) {
        promise(json_is_valid(whole.bytes, whole.len));
    } else {
        promise(count_of(&whole, "\n") == in.count + l.streamed + l.more);
        promise(count_of(&whole, "\x1b\x7f\r\t") == 0);
    }
    return 0;
}
