/* SPDX-License-Identifier: MIT */
/* rung.c - the parser that the server runs, as it runs it.
 *
 * This parser does more than the others here: it knows fields by name, and judges Host, framing and
 * expectations when the head is whole.  For a line alone it returns that more is needed; the parts
 * of the line that it has read are in the head.
 */
#include "../../../core/http.h"
#include "parsers.h"

struct state {
    const char *bytes;
    size_t n;
    long answer;
    struct http_head head;
};

_Static_assert(sizeof(struct state) <= PARSER_STATE_BYTES, "begin() has no more");

static void begin(void *state)
{
    (void)state; /* each call starts from the first byte */
}

static void feed(void *state, const char *bytes, size_t n)
{
    struct state *s = state;

    s->bytes = bytes;
    s->n = n;
    s->answer = http_parse_request(bytes, n, &s->head);
}

static struct span span_of(const struct state *s, struct slice slice)
{
    return (struct span){(uint32_t)(slice.ptr - s->bytes), (uint32_t)slice.len};
}

static void tell(const void *state, struct parsed *told)
{
    static const uint8_t methods[] = {PARSED_GET, PARSED_HEAD, PARSED_OPTIONS, PARSED_OTHER,
                                      PARSED_OTHER};
    const struct state *s = state;
    unsigned i;

    *told = (struct parsed){.status = s->answer < 0 ? (int)-s->answer : 0, .head = s->answer > 0};
    if (!s->head.target.ptr)
        return;
    told->line = told->head || (s->answer == 0 && s->n > 0 && s->bytes[s->n - 1] == '\n');
    told->method = methods[s->head.method];
    told->minor = s->head.minor;
    told->target = span_of(s, s->head.target);
    told->fields = s->head.fields;
    for (i = 0; i < s->head.fields; i++) {
        told->field[i].name = span_of(s, s->head.field[i].name);
        told->field[i].value = span_of(s, s->head.field[i].value);
    }
}

const struct parser parser_rung = {
    .name = "rung",
    .words = "the server's own, with all that it judges",
    .ours = true,
    .missing = never_missing,
    .begin = begin,
    .feed = feed,
    .tell = tell,
};
