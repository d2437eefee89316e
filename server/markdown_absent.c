/* SPDX-License-Identifier: MIT */
/* markdown_absent.c - stands for markdown.c where libcmark is not installed: Markdown is shown as
 * the text that it is. */
#include "markdown.h"

char *markdown_html(struct slice text, size_t *len)
{
    (void)text;
    (void)len;
    return NULL;
}
