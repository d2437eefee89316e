/* SPDX-License-Identifier: MIT */
/* http_parser.c - http-parser, a table of states that calls back; Debian's libhttp-parser-dev.
 *
 * The library is opened at run time, so that the others can be measured where it is missing. */
#include "callbacks.h"
#if HAS(<http_parser.h>)
#include <dlfcn.h>
#include <http_parser.h>

struct library {
    void (*init)(http_parser *, enum http_parser_type);
    size_t (*execute)(http_parser *, const http_parser_settings *, const char *, size_t);
};

struct state {
    http_parser parser;
    struct noted noted;
};

_Static_assert(sizeof(struct state) <= PARSER_STATE_BYTES, "begin() has no more");

static const struct library *library(void)
{
    static struct library found;
    void *handle;

    if (!found.execute && (handle = dlopen("libhttp_parser.so.2.9", RTLD_NOW)) != NULL) {
        *(void **)&found.init = dlsym(handle, "http_parser_init");
        *(void **)&found.execute = dlsym(handle, "http_parser_execute");
    }
    return &found;
}

static const char *missing(void)
{
    return library()->execute ? NULL : "libhttp_parser.so.2.9 is not installed: libhttp-parser2.9";
}

static int on_url(http_parser *parser, const char *at, size_t len)
{
    struct noted *noted = parser->data;

    note_more(noted, &noted->told.target, at, len);
    return 0;
}

static int on_name(http_parser *parser, const char *at, size_t len)
{
    return note_name(parser->data, at, len);
}

static int on_value(http_parser *parser, const char *at, size_t len)
{
    note_value(parser->data, at, len);
    return 0;
}

static int on_head(http_parser *parser)
{
    struct noted *noted = parser->data;

    noted->told.head = true;
    return 0;
}

static void begin(void *state)
{
    struct state *s = state;

    library()->init(&s->parser, HTTP_REQUEST);
    s->parser.data = &s->noted;
    note_begin(&s->noted);
}

static void feed(void *state, const char *bytes, size_t n)
{
    static const http_parser_settings settings = {
        .on_url = on_url,
        .on_header_field = on_name,
        .on_header_value = on_value,
        .on_headers_complete = on_head,
    };
    struct state *s = state;

    s->noted.bytes = bytes;
    library()->execute(&s->parser, &settings, bytes, n);
    s->noted.fed += (uint32_t)n;
    s->noted.last = bytes[n - 1];
}

static void tell(const void *state, struct parsed *told)
{
    const struct state *s = state;
    unsigned method = s->parser.method;

    note_tell(&s->noted, s->parser.http_errno != HPE_OK, s->parser.http_major, told);
    told->minor = s->parser.http_minor != 0;
    told->method = method == HTTP_GET       ? PARSED_GET
                   : method == HTTP_HEAD    ? PARSED_HEAD
                   : method == HTTP_OPTIONS ? PARSED_OPTIONS
                                            : PARSED_OTHER;
}
#else
static const char *missing(void)
{
    return "its header was not there when this was built: libhttp-parser-dev";
}
#endif

const struct parser parser_http_parser = {
    .name = "http-parser",
    .words = "Node's former parser, a switch with callbacks",
    .resumes = true,
    .bit = HTTP_PARSER,
    .missing = missing,
#if HAS(<http_parser.h>)
    .begin = begin,
    .feed = feed,
    .tell = tell,
#endif
};
