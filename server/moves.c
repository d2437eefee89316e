/* SPDX-License-Identifier: MIT */
/* moves.c - redirects from a path, or from all paths below a folder, to a URL.
 *
 * A final '*' of both stands for the rest of the path.  It follows a slash of the URL, so that it
 * cannot become part of a host's name.  The status is 302 unless another is given, because browsers
 * do not remember a 302.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/option.h"
#include "../base/say.h"
#include "rules.h"

enum { TO_BYTES_MAX = 1024 };

_Static_assert((int)OPTION_LIST_MAX <= (int)MOVES_MAX, "each has a place");

/* --- Reading ---------------------------------------------------------------------------------- */

/* Whether the text has nothing that a URL may not have (RFC 3986 2). */
static bool is_url_text(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~' || strchr("\"<>\\^`{|}*", text[i]))
            return false;
    return true;
}

/* A path of this host, or an address elsewhere; with a rest, one that ends with a slash. */
static bool is_target(const struct move *m)
{
    struct slice host = {NULL, 0};
    const char *at = m->to;
    size_t n = m->to_len;

    if (!is_url_text(at, n) || n == 0 || n > TO_BYTES_MAX)
        return false;
    if (m->rest && at[n - 1] != '/')
        return false;
    if (*at == '/')
        return n == 1 || at[1] != '/';
    if (n > 7 && memcmp(at, "http://", 7) == 0)
        at += 7;
    else if (n > 8 && memcmp(at, "https://", 8) == 0)
        at += 8;
    else
        return false;
    host.ptr = at;
    n -= (size_t)(at - m->to);
    while (host.len < n && !strchr("/?#", at[host.len]))
        host.len++;
    return authority_is_valid(host, false) && (!m->rest || host.len < n);
}

/* The path as requests have it: decoded, and in its shortest form. */
static bool read_from(struct move *m, const char *text, size_t n)
{
    char out[PATH_BYTES_MAX];
    long len;

    if (n == 0 || n >= sizeof(m->from))
        return false;
    len = path_decode((struct slice){text, n}, out);
    if (len < 0 || (m->rest && out[len - 1] != '/'))
        return false;
    memcpy(m->from, out, (size_t)len);
    m->from_len = (size_t)len;
    return true;
}

static bool read_status(struct move *m, const char *text)
{
    static const unsigned known[] = {301, 302, 307, 308};
    char digits[4];

    m->status = 302;
    if (!*text)
        return true;
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        snprintf(digits, sizeof(digits), "%u", known[i]);
        if (strcmp(text, digits) == 0)
            m->status = known[i];
        else
            continue;
        return true;
    }
    return false;
}

/* Why that is no redirect, or NULL. */
static const char *read_one(struct move *m, const char *text)
{
    const char *from = text, *to, *status;
    size_t from_len = strcspn(from, " "), to_len;

    to = from + from_len + strspn(from + from_len, " ");
    to_len = strcspn(to, " ");
    status = to + to_len + strspn(to + to_len, " ");
    if (!to_len)
        return "write 'FROM TO', such as '/old.html /new.html'";
    m->rest = from[from_len - 1] == '*';
    if (m->rest != (to[to_len - 1] == '*'))
        return "either both end with '*' or neither does";
    m->to = to;
    m->to_len = to_len - m->rest;
    if (!read_from(m, from, from_len - m->rest))
        return m->rest ? "FROM is a path that ends with '/*'" : "FROM is a path, such as /old.html";
    if (!is_target(m))
        return m->rest ? "TO is a path or an http URL that ends with '/*'"
                       : "TO is a path, or a URL of http or https";
    return read_status(m, status) ? NULL : "the status is 301, 302, 307 or 308";
}

int moves_read(struct moves *m, const struct option_list *list)
{
    const char *why;

    for (unsigned i = 0; i < list->count; i++) {
        why = read_one(&m->row[m->count++], list->item[i]);
        if (!why)
            continue;
        say_error("--redirect '%s': %s", list->item[i], why);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* --- Finding ---------------------------------------------------------------------------------- */

const struct move *moves_find(const struct moves *m, struct slice path)
{
    for (unsigned i = 0; i < m->count; i++) {
        const struct move *one = &m->row[i];

        if (one->rest ? path.len < one->from_len : path.len != one->from_len)
            continue;
        if (memcmp(path.ptr, one->from, one->from_len) == 0)
            return one;
    }
    return NULL;
}
