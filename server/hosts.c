/* SPDX-License-Identifier: MIT */
/* hosts.c - which site has a name.
 *
 * Names are sorted texts, and *.example.org is kept as .example.org.  So one search finds a name,
 * and one more for each of its dots finds the longest ending, as nginx chooses.  Cost: ten
 * comparisons for each search among a thousand names.
 */
#include <errno.h>
#include <string.h>
#include "hosts.h"

/* --- The name in a request -------------------------------------------------------------------- */

/* RFC 9112 3.2.2: a target in absolute form replaces the field Host. */
struct slice hosts_authority(const struct http_head *head)
{
    static const char scheme_text[] = "http://";
    static const size_t scheme = sizeof(scheme_text) - 1;
    struct slice target = head->target;
    size_t n = 0;

    if (target.len <= scheme || *target.ptr == '/' ||
        !slice_is_nocase((struct slice){target.ptr, scheme}, scheme_text))
        return http_field(head, FIELD_HOST);
    target.ptr += scheme;
    target.len -= scheme;
    while (n < target.len && target.ptr[n] != '/' && target.ptr[n] != '?')
        n++;
    return (struct slice){target.ptr, n};
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

void hosts_read(struct slice authority, char name[HOST_TEXT])
{
    size_t n = authority_name_len(authority);

    if (n > 1 && authority.ptr[n - 1] == '.')
        n--;
    if (n >= HOST_TEXT)
        n = 0;
    for (size_t i = 0; i < n; i++)
        name[i] = lower(authority.ptr[i]);
    name[n] = '\0';
}

/* --- The table -------------------------------------------------------------------------------- */

/* Where the text is, or would be; *found: it is there. */
static unsigned search(const struct hosts *h, const char *text, bool *found)
{
    unsigned from = 0, to = h->names;

    *found = false;
    while (from < to && !*found) {
        unsigned middle = from + (to - from) / 2;
        int order = strcmp(text, h->name[middle].text);

        *found = order == 0;
        if (order == 0)
            from = middle;
        else if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

unsigned hosts_find(const struct hosts *h, const char *name)
{
    bool found = false;
    unsigned at = *name && *name != '.' ? search(h, name, &found) : 0;

    while (*name && (name = strchr(name + 1, '.')) != NULL && !found)
        at = search(h, name, &found);
    return found ? h->name[at].number : 0;
}

int hosts_name(struct hosts *h, const char *text, unsigned number)
{
    bool wild = strncmp(text, "*.", 2) == 0, found;
    struct slice name = {text + wild, strlen(text) - wild};
    struct slice bare = {name.ptr + wild, name.len - wild};
    struct host_name new = {.number = number};
    unsigned at;

    if (!authority_is_valid(bare, false) || authority_name_len(name) != name.len ||
        *bare.ptr == '.' || memchr(bare.ptr, '*', bare.len))
        return -EINVAL;
    hosts_read(name, new.text);
    if (!*new.text)
        return -EINVAL;
    at = search(h, new.text, &found);
    if (found)
        return -EEXIST;
    memmove(&h->name[at + 1], &h->name[at], (h->names - at) * sizeof(new));
    h->name[at] = new;
    h->names++;
    return 0;
}
