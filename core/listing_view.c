/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* listing_view.c - a visitor's view of a folder: read from a query, and written as one. */
#include "byte.h"
#include "listing_out.h"

/* Digits of offset and limit: their sum is a uint32_t.  The link to a page behind 10^9 entries
 * would have a digit too many. */
enum { COUNT_DIGITS_MAX = 9 };

/* A form's text: '+' is a space, %XX a byte; a broken escape means itself. */
static void read_filter(struct listing_view *view, struct slice raw)
{
    size_t i = 0;

    view->filter_len = 0;
    while (i < raw.len && view->filter_len < sizeof(view->filter)) {
        char c = raw.ptr[i++];

        if (c == '+') {
            c = ' ';
        } else if (c == '%' && raw.len - i >= 2 && byte_is(raw.ptr[i], BYTE_HEX) &&
                   byte_is(raw.ptr[i + 1], BYTE_HEX)) {
            c = (char)(byte_hex(raw.ptr[i]) << 4 | byte_hex(raw.ptr[i + 1]));
            i += 2;
        }
        view->filter[view->filter_len++] = c;
    }
}

/* A value that is not a number, or is too long to be one of entries, is ignored. */
static uint32_t read_count(uint32_t before, struct slice value)
{
    uint32_t n = 0;
    size_t i;

    if (value.len == 0 || value.len > COUNT_DIGITS_MAX)
        return before;
    for (i = 0; i < value.len; i++) {
        if (!byte_is(value.ptr[i], BYTE_DIGIT))
            return before;
        n = n * 10 + (uint32_t)(value.ptr[i] - '0');
    }
    return n;
}

static void read_pair(struct listing_view *view, struct slice key, struct slice value)
{
    if (slice_is(key, "filter"))
        read_filter(view, value);
    else if (slice_is(key, "order"))
        view->descending = slice_is(value, "desc");
    else if (slice_is(key, "offset"))
        view->offset = read_count(view->offset, value);
    else if (slice_is(key, "limit"))
        view->limit = read_count(view->limit, value);
    else if (slice_is(key, "sort"))
        view->sort = slice_is(value, "size") ? LISTING_BY_SIZE :
            slice_is(value, "time") ? LISTING_BY_TIME : LISTING_BY_NAME;
}

void listing_view_read(struct listing_view *view, const struct http_ask *ask)
{
    struct slice query = ask->query;

    memset(view, 0, sizeof(*view));
    view->format = ask->json ? LISTING_JSON : ask->text ? LISTING_TEXT : LISTING_HTML;
    while (query.len) {
        const char *amp = memchr(query.ptr, '&', query.len);
        size_t len = amp ? (size_t)(amp - query.ptr) : query.len;
        const char *equals = memchr(query.ptr, '=', len);

        if (equals) {
            struct slice key = {query.ptr, (size_t)(equals - query.ptr)};
            struct slice value = {equals + 1, len - key.len - 1};

            read_pair(view, key, value);
        }
        len += amp != NULL;
        query.ptr += len;
        query.len -= len;
    }
}

bool listing_match(const struct listing_view *view, struct slice name)
{
    size_t start, i;

    for (start = 0; start + view->filter_len <= name.len; start++) {
        for (i = 0; i < view->filter_len; i++) {
            if (byte_lower(name.ptr[start + i]) != byte_lower(view->filter[i]))
                break;
        }
        if (i == view->filter_len)
            return true;
    }
    return false;
}

void out_query(struct listing_out *o, const struct listing_view *view, const char *amp)
{
    static const char *const sort[] = {"name", "size", "time"};
    static const char *const format[] = {"html", "json", "text"};
    const struct {
        const char *name;
        uint32_t count;
    } page[] = {{"offset=", view->offset}, {"limit=", view->limit}};
    unsigned i;

    out_text(o, "?sort=");
    out_text(o, sort[view->sort]);
    out_text(o, amp);
    out_text(o, view->descending ? "order=desc" : "order=asc");
    if (view->filter_len) {
        out_text(o, amp);
        out_text(o, "filter=");
        out_url(o, (struct slice){view->filter, view->filter_len});
    }
    for (i = 0; i < 2; i++) {
        if (page[i].count) {
            out_text(o, amp);
            out_text(o, page[i].name);
            out_number(o, page[i].count);
        }
    }
    if (view->format != LISTING_HTML) {
        out_text(o, amp);
        out_text(o, "format=");
        out_text(o, format[view->format]);
    }
}
