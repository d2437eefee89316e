/* SPDX-License-Identifier: MIT */
/* tokens.c - a token at a time: usual heads are read in long steps, unusual ones go to the
 * switch.
 *
 * The two parsers need all bytes again when more have come, and take a line only when it is whole.
 * If a step fails they do not ask why: the careful parser reads the head from its first byte, and
 * its answer counts.  So the quick path has to be right only about heads that it accepts.
 *
 *   memchr  libc's search for the line's end, the spaces and the colon, then a look at each token
 *   words   eight bytes at a time to the first byte that a token cannot have (core/skip.h)
 */
#include "../../../core/skip.h"
#include "machine.h"

struct reader {
    const char *bytes, *p, *end;
    struct parsed *told;
};

static uint32_t offset(const struct reader *r, const char *p)
{
    return (uint32_t)(p - r->bytes);
}

/* The method and the space behind it: one comparison for the method of nearly all requests. */
static bool take_method(struct reader *r)
{
    const char *end;

    if (r->end - r->p < 8)
        return false;
    if (memcmp(r->p, "GET ", 4) == 0) {
        r->told->method = PARSED_GET;
        r->p += 4;
        return true;
    }
    if (memcmp(r->p, "HEAD ", 5) == 0) {
        r->told->method = PARSED_HEAD;
        r->p += 5;
        return true;
    }
    r->told->method = memcmp(r->p, "OPTIONS ", 8) == 0 ? PARSED_OPTIONS : PARSED_OTHER;
    end = skip_run(r->p, r->end, BYTE_TOKEN);
    if (end == r->p || end - r->p > METHOD_BYTES_MAX || end == r->end || *end != ' ')
        return false;
    r->p = end + 1;
    return true;
}

static bool take_version(struct reader *r)
{
    if (r->end - r->p < 10 || memcmp(r->p, "HTTP/1.", 7) != 0 || !byte_is(r->p[7], BYTE_DIGIT) ||
        r->p[8] != '\r' || r->p[9] != '\n')
        return false;
    r->told->minor = r->p[7] != '0';
    r->told->line = true;
    r->p += 10;
    return true;
}

static bool take_target(struct reader *r, const char *end)
{
    r->told->target.at = offset(r, r->p);
    r->told->target.len = (uint32_t)(end - r->p);
    r->p = end + 1;
    return r->told->target.len - 1 < TARGET_BYTES_MAX;
}

static bool line_by_words(struct reader *r)
{
    const char *end;

    if (!take_method(r))
        return false;
    end = skip_run(r->p, r->end, BYTE_TARGET);
    return end < r->end && *end == ' ' && take_target(r, end) && take_version(r);
}

/* The field whose name ends at colon and whose line ends at cr. */
static void take_field(struct reader *r, const char *colon, const char *cr)
{
    struct parsed *told = r->told;
    const char *p = colon + 1, *behind = cr;

    while (p < cr && (*p == ' ' || *p == '\t'))
        p++;
    while (behind > p && (behind[-1] == ' ' || behind[-1] == '\t'))
        behind--;
    told->field[told->fields].name.at = offset(r, r->p);
    told->field[told->fields].name.len = (uint32_t)(colon - r->p);
    told->field[told->fields].value.at = offset(r, p);
    told->field[told->fields].value.len = (uint32_t)(behind - p);
    told->fields++;
    r->p = cr + 2;
}

static bool field_by_words(struct reader *r)
{
    const char *colon = skip_run(r->p, r->end, BYTE_TOKEN), *cr;

    if (colon == r->end || colon == r->p || *colon != ':')
        return false;
    cr = skip_run(colon + 1, r->end, BYTE_VALUE);
    if (r->end - cr < 2 || cr[0] != '\r' || cr[1] != '\n')
        return false;
    take_field(r, colon, cr);
    return true;
}

/* The CR LF of the line that begins at p; NULL: the line is not whole. */
static const char *line_end(const struct reader *r)
{
    const char *lf = memchr(r->p, '\n', (size_t)(r->end - r->p));

    return lf && lf > r->p && lf[-1] == '\r' ? lf - 1 : NULL;
}

static bool line_by_memchr(struct reader *r)
{
    const char *cr = line_end(r), *space;

    if (!cr || !take_method(r) || r->p >= cr)
        return false;
    space = memchr(r->p, ' ', (size_t)(cr - r->p));
    return space && skip_run(r->p, space, BYTE_TARGET) == space && take_target(r, space) &&
           take_version(r) && r->p == cr + 2;
}

static bool field_by_memchr(struct reader *r)
{
    const char *cr = line_end(r), *colon;

    if (!cr)
        return false;
    colon = memchr(r->p, ':', (size_t)(cr - r->p));
    if (!colon || colon == r->p || skip_run(r->p, colon, BYTE_TOKEN) != colon ||
        skip_run(colon + 1, cr, BYTE_VALUE) != cr)
        return false;
    take_field(r, colon, cr);
    return true;
}

/* Reads lines until the head or the bytes end; false: ask the careful parser. */
static inline bool read_lines(struct reader *r, bool (*line)(struct reader *),
                              bool (*field)(struct reader *))
{
    if (!line(r))
        return false;
    while (r->p < r->end && *r->p != '\r')
        if (r->told->fields == HEAD_FIELDS_MAX || !field(r))
            return false;
    if (r->p == r->end)
        return true;
    r->told->head = r->end - r->p >= 2 && r->p[1] == '\n';
    return r->told->head;
}

static void carefully(void *state, const char *bytes, size_t n)
{
    parser_switch.begin(state);
    parser_switch.feed(state, bytes, n);
}

static void feed_memchr(void *state, const char *bytes, size_t n)
{
    struct machine *m = state;
    struct reader r = {bytes, bytes, bytes + n, &m->told};

    if (!read_lines(&r, line_by_memchr, field_by_memchr))
        carefully(state, bytes, n);
}

static void feed_words(void *state, const char *bytes, size_t n)
{
    struct machine *m = state;
    struct reader r = {bytes, bytes, bytes + n, &m->told};

    if (!read_lines(&r, line_by_words, field_by_words))
        carefully(state, bytes, n);
}

const struct parser parser_memchr = {
    .name = "memchr",
    .words = "a line at a time: memchr(), then a look at what lies between",
    .ours = true,
    .missing = never_missing,
    .begin = machine_begin,
    .feed = feed_memchr,
    .tell = machine_tell,
};

const struct parser parser_words = {
    .name = "words",
    .words = "a token at a time: eight bytes in one step, in plain C",
    .ours = true,
    .missing = never_missing,
    .begin = machine_begin,
    .feed = feed_words,
    .tell = machine_tell,
};
