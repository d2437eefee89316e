/* SPDX-License-Identifier: MIT */
/* toml_inside.h - where the reader is in the file: shared by toml.c (lines, tables, arrays) and
 * toml_value.c (strings, numbers).  No other file includes it.
 */
#ifndef BASE_TOML_INSIDE_H
#define BASE_TOML_INSIDE_H
#include "toml.h"

struct toml_parse {
    struct toml *toml;
    const char *at, *end;
    unsigned line;
    size_t used;    /* of toml->text */
    unsigned table; /* index of the first item of the current table */
};

/* A run of bytes in the file. */
struct toml_word {
    const char *ptr;
    size_t len;
};

static inline bool is_at(const struct toml_parse *p, char c)
{
    return p->at < p->end && *p->at == c;
}

/* The end of a line or of the file.  Every \r has its \n: the bytes were checked. */
static inline bool at_end(const struct toml_parse *p)
{
    return p->at == p->end || *p->at == '\n' || *p->at == '\r';
}

static inline bool take(struct toml_parse *p, char c)
{
    if (!is_at(p, c))
        return false;
    p->at++;
    return true;
}

static inline void put(struct toml_parse *p, char c)
{
    p->toml->text[p->used++] = c;
}

/* --- toml_value.c ----------------------------------------------------------------------------- */

/* -EINVAL, with the sentence and this line as the error. */
__attribute__((format(printf, 2, 3))) int toml_refuse(struct toml_parse *p, const char *format,
                                                      ...);
/* One more item; NULL: there are too many, which is the error. */
struct toml_item *toml_add(struct toml_parse *p, enum toml_kind kind, const char *key);
/* What stands here, for messages: up to a blank or a separator; and as many of its bytes as are
 * shown. */
struct toml_word toml_word(const struct toml_parse *p);
int toml_shown(struct toml_word w);
/* The text in quotes that begins here.  0 or -EINVAL. */
int toml_string(struct toml_parse *p, const char **text);
/* The value that begins here, which is no array; key NULL: it is an element of one.
 * 0 or -EINVAL. */
int toml_scalar(struct toml_parse *p, const char *key);

#endif
