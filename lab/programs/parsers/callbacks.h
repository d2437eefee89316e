/* SPDX-License-Identifier: MIT */
/* callbacks.h - the record of parsers that call back with parts of a head, piece by piece. */
#ifndef CALLBACKS_H
#define CALLBACKS_H
#include <string.h>
#include "parsers.h"

struct noted {
    const char *bytes; /* of this piece */
    uint32_t fed;      /* bytes of earlier pieces */
    char last;         /* byte fed */
    bool in_name;      /* the last part was a name: the next one is more of it, or a value */
    struct parsed told;
};

static inline void note_begin(struct noted *noted)
{
    memset(noted, 0, offsetof(struct noted, told) + offsetof(struct parsed, field));
}

static inline void note_more(struct noted *noted, struct span *span, const char *at, size_t len)
{
    if (span->len == 0)
        span->at = noted->fed + (uint32_t)(at - noted->bytes);
    span->len += (uint32_t)len;
}

/* Non-zero: more fields than there is room for. */
static inline int note_name(struct noted *noted, const char *at, size_t len)
{
    struct parsed *told = &noted->told;

    if (!noted->in_name) {
        if (told->fields == HEAD_FIELDS_MAX)
            return -1;
        memset(&told->field[told->fields++], 0, sizeof(told->field[0]));
    }
    noted->in_name = true;
    note_more(noted, &told->field[told->fields - 1].name, at, len);
    return 0;
}

static inline void note_value(struct noted *noted, const char *at, size_t len)
{
    noted->in_name = false;
    note_more(noted, &noted->told.field[noted->told.fields - 1].value, at, len);
}

/* Parsers with callbacks have none for the end of the request line: the line was seen if there is a
 * target and the last byte ended a line.  They leave other versions to their caller, which refuses
 * them here, as our parser does. */
static inline void note_tell(const struct noted *noted, bool failed, unsigned major,
                             struct parsed *told)
{
    *told = noted->told;
    told->line = told->target.len > 0 && (told->head || noted->last == '\n');
    told->status = failed || (told->line && major != 1) ? 400 : 0;
}

#endif
