/* SPDX-License-Identifier: MIT */
/* markdown_absent.c - takes the place of markdown.c where libcmark is not installed: Markdown is
 * shown as plain text. */
#include "markdown.h"

char *markdown_html(struct slice text, size_t *len)
{
    (void)text;
    (void)len;
    return NULL;
}
