/* SPDX-License-Identifier: MIT */
/* types.h - the content type of a file by its name.  The table is made at build time:
 * scripts/gen-types.py. */
#ifndef SERVER_TYPES_H
#define SERVER_TYPES_H
#include <stdbool.h>
#include <stddef.h>

/* Of the last component of path[0..n).  Case is ignored; unknown: application/octet-stream.
 * Lives for ever. */
const char *type_of(const char *path, size_t n);

/* Whether files of that type are usually worth compressing, so that looking for NAME.br beside
 * it makes sense. */
bool type_compresses(const char *type);

#endif
