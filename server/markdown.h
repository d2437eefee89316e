/* SPDX-License-Identifier: MIT */
/* markdown.h - Markdown (CommonMark) as HTML that can neither run nor load anything: markdown.c, by
 * libcmark.
 */
#ifndef SERVER_MARKDOWN_H
#define SERVER_MARKDOWN_H
#include "../core/http.h"

enum {
    MARKDOWN_BYTES_MAX = 512 << 10, /* of the HTML */
    MARKDOWN_MEMORY_MAX = 8 << 20,  /* while it is made: 64 KiB of a manual take 1 MB, others 16 */
};

/* The HTML, which the caller frees, and its length; NULL: it or the memory for it would be too
 * large, or rung was built without libcmark. */
char *markdown_html(struct slice text, size_t *len);

#endif
