/* SPDX-License-Identifier: MIT */
/* h2_fields.h - between heads as HTTP/1.1 writes them and the fields of HTTP/2.  Pure functions. */
#ifndef LOAD_H2_FIELDS_H
#define LOAD_H2_FIELDS_H
#include "../../base/option.h"
#include "../../core/http.h"
#include "bytes.h"

struct h2_field {
    struct slice name, value;
};

/* Four pseudo-fields, those of --header, one of a mix, and some. */
enum { H2_FIELDS_MAX = 16 + OPTION_LIST_MAX };

/* Splits a request that rung load has written; pseudo-fields come first (RFC 9113 8.3).  Returns
 * how many fields there are; their slices are those of the text. */
size_t h2_fields_split(struct slice text, bool secure, struct h2_field field[H2_FIELDS_MAX]);

/* Appends a field to the text of an answer; :status begins one.  False: it has become too long, or
 * there is no memory. */
enum { H2_TEXT_BYTES_MAX = 2 * HEAD_BYTES_MAX };
bool h2_fields_join(struct bytes *text, struct h2_field field);

/* Whether HTTP/2 has no place for that field line of --header (RFC 9113 8.2.2). */
bool h2_fields_forbid(const char *header);

#endif
