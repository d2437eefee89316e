/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* types.h - the content type of a file by its name.
 *
 * The table is made at build time by scripts/gen-types.py: Debian's media-types, and over it the
 * rows of core/mime.def.
 */
#ifndef CORE_TYPES_H
#define CORE_TYPES_H
#include "env.h"

/* The type of the last component of path[0..n).  Case is ignored; unknown:
 * application/octet-stream.  The result is a constant of the program, NUL-terminated. */
const char *type_of(const char *path, size_t n);

/* Whether files of that type are usually worth compressing, so that looking for NAME.br next to it
 * makes sense. */
bool type_compresses(const char *type);

#endif
