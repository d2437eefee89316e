/* SPDX-License-Identifier: MIT */
/* site_made.c - bodies that are made while they are sent: one interface, for the code that sends
 * them, to listings and archives of folders.
 */
#include "site_archive.h"

static struct site_archive *archive_of(const struct source *source)
{
    return ((const struct site_source *)source)->archive;
}

bool site_listing_ready(const struct source *source)
{
    if (archive_of(source))
        return site_archive_ready(archive_of(source));
    return !site_listing(source) || folder_ready(site_listing(source));
}

/* Slices of archives are short, and take turns with those of streamed listings. */
bool site_listing_long(const struct source *source)
{
    return !archive_of(source) && folder_long(site_listing(source));
}

int site_listing_step(struct source *source)
{
    if (archive_of(source))
        return site_archive_step(archive_of(source));
    return folder_step(site_listing(source));
}

size_t site_listing_next(struct source *source, char *buf, size_t cap)
{
    if (archive_of(source))
        return site_archive_next(archive_of(source), buf, cap);
    return folder_next(site_listing(source), buf, cap);
}

void site_listing_client(struct source *source, int fd)
{
    if (archive_of(source))
        site_archive_client(archive_of(source), fd);
    else if (site_listing(source))
        site_folder_client(site_listing(source), fd);
}

void site_listing_help(struct source *source, struct listing_help help)
{
    source->next = help.next;
    ((struct site_source *)source)->owner = help.owner;
    if (archive_of(source))
        site_archive_help(archive_of(source));
    else
        site_listing(source)->helped = true;
}

void *site_listing_owner(const struct source *source)
{
    return ((const struct site_source *)source)->owner;
}
