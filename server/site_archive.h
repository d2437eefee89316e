/* SPDX-License-Identifier: MIT */
/* site_archive.h - a folder and all below it as one file (site_archive.c).  Only site*.c and
 * cache*.c include this.
 */
#ifndef SERVER_SITE_ARCHIVE_H
#define SERVER_SITE_ARCHIVE_H
#include "site_inside.h"

struct site_archive;

/* Whether an archive of the folder is asked for: ?archive=zip, tar or tar.gz. */
bool site_archive_asked(const struct site *site, const struct http_ask *ask);
/* Begins it.  0, or -errno as site_find() has it.  May wait for the disk. */
int site_archive_open(struct site *site, const struct http_ask *ask, struct site_archive **archive);
void site_archive_close(struct site_archive *a); /* NULL is fine */
/* Sets what a source says of the archive: its type, the name for the file that a client saves, and
 * its trailer, if that was asked for.  All of it lives as long as the archive. */
void site_archive_tell(const struct site_archive *a, struct source *source);

/* As site_listing_...() in inside.h. */
void site_archive_client(struct site_archive *a, int fd);
void site_archive_help(struct site_archive *a);
bool site_archive_ready(const struct site_archive *a);
int  site_archive_step(struct site_archive *a);
size_t site_archive_next(struct site_archive *a, char *buf, size_t cap);

#endif
