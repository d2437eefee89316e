/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_cond.c - validators and preconditions (RFC 9110 8.8, 13).
 *
 * The ETag is inode, size, the nanoseconds of mtime and ctime, the coding, and a hash of the bytes
 * if the host has made them: another compressor makes other bytes from the same file.  User space
 * cannot set ctime, so every change that the file system stamps with another time changes the tag.
 * Two changes within one tick of its clock have the same stamp: the tag of a file that is as young
 * as that is weak (RFC 9110 8.8.1) until the host says otherwise.
 */
#include "http_inside.h"

/* The range that http_date_write() can write: years 1 to 9999. */
static const int64_t DATE_MIN_S = -62135596800, DATE_MAX_S = 253402300799;

static uint64_t nanoseconds(int64_t s, uint32_t ns)
{
    return (uint64_t)s * 1000000000u + ns;
}

static const char suffix[CODINGS][5] = {"", "-gz", "-zst", "-br"};

void http_mark_set(struct http_mark *mark, const struct source *source, int64_t now_s)
{
    struct text t = {mark->etag, mark->etag + sizeof(mark->etag)};

    mark->now_s = now_s;
    mark->etag_len = 0;
    mark->strong = !source->young;
    mark->dated = false;
    mark->varies = source->vary || source->coding != CODING_IDENTITY;
    if (source->kind != SOURCE_BODY)
        return;
    TEXT_LITERAL(&t, "\"");
    text_hex(&t, source->inode);
    TEXT_LITERAL(&t, "-");
    text_hex(&t, source->made ? source->made_of : source->size);
    TEXT_LITERAL(&t, "-");
    text_hex(&t, nanoseconds(source->mtime_s, source->mtime_ns));
    TEXT_LITERAL(&t, "-");
    text_hex(&t, nanoseconds(source->ctime_s, source->ctime_ns));
    mark->stem_len = (uint8_t)(t.at - mark->etag);
    text_string(&t, suffix[source->coding]);
    if (source->made) {
        TEXT_LITERAL(&t, "-");
        text_hex(&t, source->made);
    }
    TEXT_LITERAL(&t, "\"");
    mark->etag_len = (uint8_t)(t.at - mark->etag);
    /* A date in the future is replaced by that of the answer (8.8.2.1). */
    mark->mtime_s = source->mtime_s < now_s ? source->mtime_s : now_s;
    mark->dated = mark->mtime_s >= DATE_MIN_S && mark->mtime_s <= DATE_MAX_S;
}

static bool is_ours(struct slice tag, const struct http_mark *mark)
{
    return mark->etag_len && tag.len == mark->etag_len && memcmp(tag.ptr, mark->etag, tag.len) == 0;
}

/* The next entity-tag of a list, with its quotes.  http_list() would take a backslash for an
 * escape, but in an entity-tag it is a character like any other (8.8.3).  False: the end, or
 * it is malformed from here on. */
static bool next_tag(struct slice *rest, struct slice *tag, bool *weak)
{
    const char *end;

    while (rest->len && (*rest->ptr == ' ' || *rest->ptr == '\t' || *rest->ptr == ',')) {
        rest->ptr++;
        rest->len--;
    }
    *weak = rest->len > 2 && rest->ptr[0] == 'W' && rest->ptr[1] == '/';
    if (*weak) {
        rest->ptr += 2;
        rest->len -= 2;
    }
    if (rest->len < 2 || *rest->ptr != '"')
        return false;
    end = memchr(rest->ptr + 1, '"', rest->len - 1);
    if (!end)
        return false;
    tag->ptr = rest->ptr;
    tag->len = (size_t)(end + 1 - rest->ptr);
    rest->ptr += tag->len;
    rest->len -= tag->len;
    return rest->len == 0 || *rest->ptr == ' ' || *rest->ptr == '\t' || *rest->ptr == ',';
}

/* Whether a list of that field names what we have, "*" included.  Weak tags, theirs or ours, count
 * only where the comparison is weak (8.8.3.2). */
static bool names_ours(const struct http_head *head, enum http_field_id id,
                       const struct http_mark *mark)
{
    struct slice value, tag;
    unsigned cursor = 0;
    bool weak;

    for (;;) {
        value = http_next(head, id, &cursor);
        if (!value.ptr)
            return false;
        if (slice_is(value, "*"))
            return true;
        while (next_tag(&value, &tag, &weak))
            if (is_ours(tag, mark) && (id == FIELD_IF_NONE_MATCH || (!weak && mark->strong)))
                return true;
    }
}

/* The value of a field that is not a list; a repeated field counts as absent, whatever its
 * values. */
static struct slice only_value(const struct http_head *head, enum http_field_id id)
{
    unsigned cursor = 0;
    struct slice value = http_next(head, id, &cursor);

    if (value.ptr && http_next(head, id, &cursor).ptr)
        value.ptr = NULL;
    return value;
}

/* Whether mtime is known and no later than the date of that field; *valid: both the field and the
 * mark have a date. */
static bool not_since(const struct http_head *head, enum http_field_id id,
                      const struct http_mark *mark, bool *valid)
{
    struct slice value = only_value(head, id);
    int64_t date_s;

    /* A field that is not a date is ignored, and so is any field if we have no date (13.1.3,
     * 13.1.4). */
    *valid = value.ptr && mark->dated && http_date_read(value, mark->now_s, &date_s);
    return *valid && mark->mtime_s <= date_s;
}

unsigned http_cond(const struct http_head *head, const struct http_mark *mark)
{
    bool valid, old;

    if (head->first[FIELD_IF_MATCH]) {
        if (!names_ours(head, FIELD_IF_MATCH, mark))
            return 412;
    } else if (head->first[FIELD_IF_UNMODIFIED_SINCE]) {
        old = not_since(head, FIELD_IF_UNMODIFIED_SINCE, mark, &valid);
        if (valid && !old)
            return 412;
    }
    if (head->first[FIELD_IF_NONE_MATCH])
        return names_ours(head, FIELD_IF_NONE_MATCH, mark) ? 304 : 0;
    return not_since(head, FIELD_IF_MODIFIED_SINCE, mark, &valid) ? 304 : 0;
}

static bool is_hex(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
}

/* The coding in a tag of bytes that were made from this file in this state; identity: it is not
 * such a tag. */
static enum coding made_coding(struct slice tag, const struct http_mark *mark)
{
    enum coding coding;
    size_t n, at;

    if (tag.len > sizeof(mark->etag) || tag.len <= mark->stem_len ||
        memcmp(tag.ptr, mark->etag, mark->stem_len) != 0)
        return CODING_IDENTITY;
    for (coding = CODING_GZIP; coding < CODINGS; coding++) {
        n = strlen(suffix[coding]);
        at = mark->stem_len + n;
        if (tag.len < at + sizeof("-0\"") - 1 || tag.ptr[at] != '-' ||
            memcmp(tag.ptr + mark->stem_len, suffix[coding], n) != 0)
            continue;
        for (at++; is_hex(tag.ptr[at]); at++)
            continue; /* it ends with a quote */
        return at == tag.len - 1 ? coding : CODING_IDENTITY;
    }
    return CODING_IDENTITY;
}

bool http_cond_made(const struct http_head *head, const struct http_ask *ask,
                    struct http_mark *mark)
{
    struct slice value, tag;
    unsigned cursor = 0;
    enum coding coding;
    bool weak;

    while ((value = http_next(head, FIELD_IF_NONE_MATCH, &cursor)).ptr)
        while (mark->strong && mark->etag_len && next_tag(&value, &tag, &weak)) {
            coding = made_coding(tag, mark);
            if (!http_prefers(ask->q, coding, CODING_IDENTITY))
                continue;
            memcpy(mark->etag, tag.ptr, tag.len);
            mark->etag_len = (uint8_t)tag.len;
            return true;
        }
    return false;
}

bool http_cond_range(const struct http_head *head, const struct http_mark *mark)
{
    struct slice value = only_value(head, FIELD_IF_RANGE);
    int64_t date_s;

    if (!head->first[FIELD_IF_RANGE])
        return true;
    if (!value.ptr)
        return false;
    if (value.len && *value.ptr == '"')
        return mark->strong && is_ours(value, mark);
    /* A weak tag is never good enough, and is no date either.  A date does not distinguish codings
     * of one file, whose bytes must not be joined: those that are made have the file's date.  A
     * date must be exactly ours (13.1.5), and strong: its second has to be over, because another
     * change in it would have the same date (8.8.2.2). */
    return mark->dated && !mark->varies && http_date_read(value, mark->now_s, &date_s) &&
           date_s == mark->mtime_s && mark->mtime_s < mark->now_s;
}
