/* SPDX-License-Identifier: MIT */
/* toml.h - the part of TOML 1.0 that a file of options needs, read from memory.
 *
 * Read: comments, bare and quoted keys, basic and literal strings, integers, booleans, arrays of
 * these, [table] and [[array of tables]].  Refused, with a message that names them: dates, floats,
 * inline tables, multi-line strings, dotted keys, and arrays within arrays.  What is read means the
 * same as in TOML, with one exception: a string has no NUL in it, because options end with one.
 *
 * The reader does no I/O and allocates nothing: the caller has the bytes and a struct toml, which
 * takes a copy of every text.  Cost: two passes over the file; each key is compared with those
 * before it in its table, and the name of each table with everything before it.
 */
#ifndef BASE_TOML_H
#define BASE_TOML_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOML_BYTES_MAX = 65536, /* of a file: some hundred tables */
    TOML_ITEMS_MAX = 4096,  /* of a file: keys, elements of arrays and tables */
    TOML_ERROR_TEXT = 256,  /* a sentence with the NUL; a longer one is cut */
};

enum toml_kind {
    TOML_TABLE,   /* [key]: the items that follow are its keys, until the next table */
    TOML_ELEMENT, /* [[key]]: the same of one more element of that array */
    TOML_STRING,
    TOML_INTEGER,
    TOML_BOOLEAN,
    TOML_ARRAY,   /* the next `count` items are its elements, which have no key */
};

struct toml_item {
    enum toml_kind kind;
    unsigned line;    /* from 1 on */
    const char *key;  /* or NULL */
    const char *text; /* TOML_STRING */
    int64_t number;   /* TOML_INTEGER; TOML_BOOLEAN: 0 or 1 */
    unsigned count;   /* TOML_ARRAY */
};

struct toml {
    unsigned items; /* in the order of the file */
    struct toml_item item[TOML_ITEMS_MAX];
    char text[TOML_BYTES_MAX + 1]; /* what keys and strings point to */
    char error[TOML_ERROR_TEXT];
    unsigned error_line;
};

/* 0; or -EINVAL, with the line and a sentence that says what is wrong there and what to do. */
int toml_read(struct toml *toml, const char *bytes, size_t n);

/* Writes text as a basic string, with its quotes, into out of cap bytes; what does not fit is cut,
 * and there is always a NUL.  Returns the bytes that the whole has, without the NUL. */
size_t toml_quote(char *out, size_t cap, const char *text);

#endif
