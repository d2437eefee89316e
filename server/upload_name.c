/* SPDX-License-Identifier: MIT */
/* upload_name.c - names that an upload may not have.
 *
 * An upload adds an address, and must not change the answers of any other address.  So it may not
 * become a file that the server sends in place of another: a folder's index, the page of an error.
 * Names of compressed forms are allowed: in folders that take uploads no compressed form is looked
 * for (docroot.c), because a file may come after its compressed form, or be older.  Hidden names
 * are refused: .well-known, for example, proves to certificate authorities who owns the site.
 *
 * Case makes no difference here: a file system may ignore it.
 */
#include <string.h>
#include "upload.h"

/* Whether a name is one of the pages at the top, as 404.html. */
static bool is_page(struct slice name)
{
    return name.len == 8 && slice_is_nocase((struct slice){name.ptr + 3, 5}, ".html") &&
           name.ptr[0] >= '1' && name.ptr[0] <= '9' && name.ptr[1] >= '0' && name.ptr[1] <= '9' &&
           name.ptr[2] >= '0' && name.ptr[2] <= '9';
}

static bool has_controls(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.ptr[i] < ' ' || name.ptr[i] == 0x7f)
            return true;
    return false;
}

bool upload_is_hidden(const struct docroot_rules *rules, struct slice path)
{
    static const char known[] = "/.well-known/";

    if (rules->hidden)
        return path.len >= sizeof(known) - 1 &&
               slice_is_nocase((struct slice){path.ptr, sizeof(known) - 1}, known);
    for (size_t i = 0; i + 1 < path.len; i++)
        if (path.ptr[i] == '/' && path.ptr[i + 1] == '.')
            return true;
    return false;
}

int upload_name(struct upload *u, struct slice name)
{
    const struct docroot_rules *rules = u->to->rules;
    const struct slice folder = {u->path, u->path_len};

    if (!name.len || memchr(name.ptr, '/', name.len) || has_controls(name) ||
        slice_is(name, ".") || slice_is(name, ".."))
        return -400;
    if (name.len > NAME_BYTES_MAX || !path_links(folder, name, false))
        return -414;
    memcpy(u->name, name.ptr, name.len);
    u->name[name.len] = '\0';
    if (*name.ptr == '.' && (!rules->hidden || slice_is_nocase(name, ".well-known")))
        return -403;
    if (slice_is_nocase(name, rules->index) || (folder.len == 1 && is_page(name)))
        return -403;
    if (upload_is_taken(u->folder, u->name))
        return u->new_only ? -412 : -409;
    return 0;
}
