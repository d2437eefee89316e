/* SPDX-License-Identifier: MIT */
/* pico.c - picohttpparser, a token at a time; inside Debian's libh2o0.13, which exports it.
 *
 * No header is installed with it, so the function is declared here.  Debian compiles for any
 * amd64, so its steps of sixteen bytes (SSE 4.2) are not in it. */
#include <dlfcn.h>
#include <string.h>
#include "parsers.h"

struct phr_header {
    const char *name;
    size_t name_len;
    const char *value;
    size_t value_len;
};

struct state {
    const char *bytes;
    int answer;
    const char *method, *path;
    size_t method_len, path_len, fields;
    int minor;
    struct phr_header field[HEAD_FIELDS_MAX];
};

_Static_assert(sizeof(struct state) <= PARSER_STATE_BYTES, "begin() has no more");

struct library {
    int (*parse)(const char *bytes, size_t n, const char **method, size_t *method_len,
                 const char **path, size_t *path_len, int *minor, struct phr_header *field,
                 size_t *fields, size_t before);
};

static const struct library *library(void)
{
    static struct library found;
    void *handle;

    if (!found.parse && (handle = dlopen("libh2o.so.0.13", RTLD_NOW)) != NULL)
        *(void **)&found.parse = dlsym(handle, "phr_parse_request");
    return &found;
}

static const char *missing(void)
{
    return library()->parse ? NULL : "libh2o.so.0.13 is not installed: libh2o0.13";
}

static void begin(void *state)
{
    (void)state; /* each call starts from the first byte */
}

static void feed(void *state, const char *bytes, size_t n)
{
    struct state *s = state;

    s->bytes = bytes;
    s->fields = HEAD_FIELDS_MAX;
    s->answer = library()->parse(bytes, n, &s->method, &s->method_len, &s->path, &s->path_len,
                                 &s->minor, s->field, &s->fields, 0);
}

static uint8_t method_of(const struct state *s)
{
    static const char *const names[] = {"GET", "HEAD", "OPTIONS"};
    uint8_t i;

    for (i = 0; i < PARSED_OTHER; i++)
        if (strlen(names[i]) == s->method_len && memcmp(names[i], s->method, s->method_len) == 0)
            break;
    return i;
}

static struct span span_of(const struct state *s, const char *p, size_t len)
{
    return (struct span){p ? (uint32_t)(p - s->bytes) : 0, (uint32_t)len};
}

static void tell(const void *state, struct parsed *told)
{
    const struct state *s = state;
    size_t i;

    *told = (struct parsed){.status = s->answer == -1 ? 400 : 0, .head = s->answer >= 0};
    if (s->answer == -1 || s->minor < 0)
        return;
    told->line = true;
    told->method = method_of(s);
    told->minor = s->minor != 0;
    told->target = span_of(s, s->path, s->path_len);
    if (!told->head)
        return; /* it reports no fields of an incomplete head */
    told->fields = (unsigned)s->fields;
    for (i = 0; i < s->fields; i++) {
        told->field[i].name = span_of(s, s->field[i].name, s->field[i].name_len);
        told->field[i].value = span_of(s, s->field[i].value, s->field[i].value_len);
    }
}

const struct parser parser_pico = {
    .name = "picohttpparser",
    .words = "h2o's parser, a token at a time",
    .bit = PICO,
    .missing = missing,
    .begin = begin,
    .feed = feed,
    .tell = tell,
};
