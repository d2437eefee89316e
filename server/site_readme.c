/* SPDX-License-Identifier: MIT */
/* site_readme.c - the README of a folder, to be shown below its listing.
 *
 * The README is opened and read under the rules of a request for it, each time that the listing is
 * made.  A kept listing ends when a file in it changes, and a listing with a README always has it
 * as one of its files: a listing with a filter shows no README.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "markdown.h"
#include "site_inside.h"

static const char *const names[] = {"README.md", "README.txt", "README"};

/* All bytes of the file; NULL: they cannot be read, there is no memory, or the file is empty or too
 * long. */
static char *read_all(int fd, const struct stat *st, size_t *len)
{
    char *text = NULL;
    ssize_t n = 0;

    *len = 0;
    if (st->st_size > 0 && st->st_size <= SITE_README_BYTES_MAX)
        text = malloc((size_t)st->st_size);
    while (text && *len < (size_t)st->st_size) {
        n = read(fd, text + *len, (size_t)st->st_size - *len);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        *len += n > 0 ? (size_t)n : 0;
    }
    if (text && (n < 0 || *len == 0)) {
        free(text);
        return NULL;
    }
    return text;
}

/* The first of the names that is a file. */
static int open_one(struct site *site, struct slice folder, struct stat *st, bool *markdown)
{
    char path[PATH_BYTES_MAX + NAME_BYTES_MAX];
    int len;

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int fd;

        len = snprintf(path, sizeof(path), "%.*s%s", (int)folder.len, folder.ptr, names[i]);
        if (site_moves(site, (struct slice){path, (size_t)len}))
            continue;
        fd = site_open_file(site, path + 1, st);
        *markdown = i == 0;
        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}

void site_readme_open(struct site *site, struct listing *l)
{
    struct stat st;
    bool markdown;
    char *text, *html;
    size_t len, html_len;
    int fd;

    if (!site->readme || l->view.format != LISTING_HTML || l->view.filter_len || l->view.offset)
        return;
    fd = open_one(site, l->path, &st, &markdown);
    if (fd < 0)
        return;
    text = read_all(fd, &st, &len);
    close(fd);
    html = text && markdown ? markdown_html((struct slice){text, len}, &html_len) : NULL;
    if (html) {
        free(text);
        text = html;
        len = html_len;
    }
    if (!text || !charge(site, len)) {
        free(text);
        return;
    }
    l->readme = (struct slice){text, len};
    l->readme_is_html = html;
}

void site_readme_close(struct site *site, struct listing *l)
{
    charge_back(site, l->readme.len);
    free((void *)(uintptr_t)l->readme.ptr);
    l->readme = (struct slice){NULL, 0};
}
