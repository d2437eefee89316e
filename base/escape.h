/* SPDX-License-Identifier: MIT */
/* escape.h - untrusted bytes as text that is safe to print, in ASCII, always NUL-terminated.
 *
 * Text that does not fit is cut between two characters, and the cut shows: it ends with "...".
 */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H
#include "../core/http.h"

/* For JSON strings: quote, backslash and everything outside 0x20-0x7e as \u00HH.  A byte is taken
 * as the code point of its value: any bytes make valid JSON, and a reader can tell which they were.
 * buf has cap >= 8 bytes. */
void escape_json(char *buf, size_t cap, struct slice s);

/* For quoted fields of logs: the same bytes as \xHH; cap >= 8. */
void escape_quoted(char *buf, size_t cap, struct slice s);

#endif
