/* SPDX-License-Identifier: MIT */
/* llhttp.c - llhttp, states compiled from a description; Debian's node-llhttp brings its C.
 *
 * The parser is compiled in its default, lenient mode here, as programs that use it do. */
#include "callbacks.h"
#if HAS(<llhttp.c>)
#include <api.c>
#include <http.c>

struct state {
    llhttp_t parser;
    struct noted noted;
};

_Static_assert(sizeof(struct state) <= PARSER_STATE_BYTES, "begin() has no more");

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct noted *noted = parser->data;

    note_more(noted, &noted->told.target, at, len);
    return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
    return note_name(parser->data, at, len);
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    note_value(parser->data, at, len);
    return 0;
}

static int on_head(llhttp_t *parser)
{
    struct noted *noted = parser->data;

    noted->told.head = true;
    return 0;
}

static void begin(void *state)
{
    static const llhttp_settings_t settings = {
        .on_url = on_url,
        .on_header_field = on_name,
        .on_header_value = on_value,
        .on_headers_complete = on_head,
    };
    struct state *s = state;

    llhttp_init(&s->parser, HTTP_REQUEST, &settings);
    s->parser.data = &s->noted;
    note_begin(&s->noted);
}

static void feed(void *state, const char *bytes, size_t n)
{
    struct state *s = state;

    s->noted.bytes = bytes;
    llhttp_execute(&s->parser, bytes, n);
    s->noted.fed += (uint32_t)n;
    s->noted.last = bytes[n - 1];
}

static void tell(const void *state, struct parsed *told)
{
    const struct state *s = state;
    int error = llhttp_get_errno(&s->parser);
    unsigned method = s->parser.method;

    note_tell(&s->noted, error != HPE_OK && error != HPE_PAUSED_UPGRADE, s->parser.http_major,
              told);
    told->minor = s->parser.http_minor != 0;
    told->method = method == HTTP_GET       ? PARSED_GET
                   : method == HTTP_HEAD    ? PARSED_HEAD
                   : method == HTTP_OPTIONS ? PARSED_OPTIONS
                                            : PARSED_OTHER;
}

static const char *missing(void)
{
    return NULL;
}
#else
static const char *missing(void)
{
    return "its source was not there when this was built: node-llhttp";
}
#endif

const struct parser parser_llhttp = {
    .name = "llhttp",
    .words = "Node's parser, states compiled from a description, with callbacks",
    .resumes = true,
    .bit = LLHTTP,
    .missing = missing,
#if HAS(<llhttp.c>)
    .begin = begin,
    .feed = feed,
    .tell = tell,
#endif
};
