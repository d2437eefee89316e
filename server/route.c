/* SPDX-License-Identifier: MIT */
/* route.c - which other path answers a request.
 *
 *   --pretty-urls   /about      about.html, if there is neither a file nor a folder about
 *   --spa           /users/7    index.html at the top, unless the name looks like a file's
 *   rung FILE       /           the only file that is served
 *
 * The name of a file that a page needs (app.js) is not answered by the index: the browser would run
 * the page as a script, and the mistake in the link would be hidden.  A hidden path is not answered
 * by it either, so that it looks the same whether there is such a file or not.
 */
#include <string.h>
#include "../core/types.h"
#include "route.h"

enum { TRY_PRETTY, TRY_SPA, TRIES };

const struct http_ask *route_first(const struct route *r, const struct http_ask *ask,
                                   struct route_way *way)
{
    struct slice path = ask->path;

    way->tried = 0;
    if (!r->only || (path.len == r->only_len && memcmp(path.ptr, r->only, r->only_len) == 0))
        return ask;
    if (path.len != 1)
        return NULL;
    way->ask = *ask;
    way->ask.path = (struct slice){r->only, r->only_len};
    return &way->ask;
}

static bool ends_with(struct slice s, const char *end)
{
    size_t n = strlen(end);

    return s.len >= n && memcmp(s.ptr + s.len - n, end, n) == 0;
}

/* The way's next ask is that path: two texts.  False: it is too long. */
static bool take(struct route_way *way, struct slice path, const char *more)
{
    size_t n = strlen(more);

    if (path.len + n > sizeof(way->path) - 1)
        return false;
    memmove(way->path, path.ptr, path.len);
    memcpy(way->path + path.len, more, n);
    way->ask.path = (struct slice){way->path, path.len + n};
    return true;
}

static bool is_pretty(struct slice path)
{
    return path.ptr[path.len - 1] != '/' && !ends_with(path, ".html");
}

/* Whether the last name has an ending whose content type is known. */
static bool looks_like_file(struct slice path)
{
    size_t at = path.len;

    while (at > 0 && path.ptr[at - 1] != '/' && path.ptr[at - 1] != '.')
        at--;
    return at > 0 && path.ptr[at - 1] == '.' &&
           strcmp(type_of(path.ptr, path.len), type_of("", 0)) != 0;
}

bool route_other(const struct route *r, const struct http_ask *ask, struct route_way *way)
{
    static const struct slice top = {"/", 1};

    while (way->tried < TRIES) {
        unsigned what = way->tried++;

        way->ask = *ask;
        way->ask.again = 0; /* its number stands for the answer to the path that was asked for */
        if (what == TRY_PRETTY && r->pretty && is_pretty(ask->path) &&
            take(way, ask->path, ".html"))
            return true;
        if (what == TRY_SPA && r->spa && !looks_like_file(ask->path) &&
            (r->hidden || !path_is_hidden(ask->path)) && take(way, top, r->index))
            return true;
    }
    return false;
}
