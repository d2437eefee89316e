/* SPDX-License-Identifier: MIT */
/* upload.h - files that clients put into a folder (--upload DIR).
 *
 *   upload.c        which requests may store what, and where: struct http_store of the core
 *   upload_form.c   multipart/form-data, as browsers send it
 *   upload_write.c  bytes are written, by a helper if this thread must not wait
 *   upload_open.c   the folder that --upload names
 *   upload_name.c   names that are refused
 *   upload_file.c   a file without a name, which gets it when it is complete
 *
 * A file is written without a name (O_TMPFILE), so no client sees a part of it, and nothing is left
 * of it if the client, the server or the machine stops.  It gets its name by linkat(), which never
 * replaces anything.  Every path is opened at the root of its site, beneath it and following no
 * link.
 *
 * Memory: one struct upload for each body, whatever its size.  A loop that must not wait for a disk
 * hands it to a helper thread when its buffer is full, and when the file is complete; meanwhile the
 * connection waits (CONN_WAIT), and so does its client.
 */
#ifndef SERVER_UPLOAD_H
#define SERVER_UPLOAD_H
#include <stdatomic.h>
#include "inside.h"

enum {
    UPLOAD_BYTES = 65536,   /* written at once: few calls, and 64 MiB for all that may be open */
    UPLOADS_MAX = 1024,     /* bodies that a process receives at a time; one more gets 503 */
    BOUNDARY_BYTES_MAX = 70 /* RFC 2046 5.1.1 */
};

/* Where the uploads of one site go. */
struct upload_to {
    const char *at;     /* "/folder/"; NULL: nowhere */
    uint64_t bytes_max; /* of a body */
    const struct docroot_rules *rules;
    int root_fd;        /* of the site */
};

struct form;

/* A body that is being kept. */
struct upload {
    const struct upload_to *to;
    int folder, file;       /* file -1: what comes is dropped */
    uint64_t begun_ns;
    uint64_t bytes;         /* of the body */
    uint64_t file_bytes;    /* of the file */
    unsigned kept;          /* files that have their name */
    unsigned status;        /* form: why a file was not kept; 0: all were */
    bool browser;           /* it said where the page is that sends this */
    bool new_only;          /* If-None-Match: * */
    bool names;             /* the helper: it is complete, and gets its name */
    bool busy;              /* the helper has it, and its result was not taken */
    atomic_int owner;       /* enum upload_owner */
    struct form *form;      /* NULL: PUT; by malloc() */
    size_t have;            /* in buf */
    size_t path_len;
    char path[PATH_BYTES_MAX];      /* of the folder, with slashes at both ends */
    char name[NAME_BYTES_MAX + 1];  /* of the file */
    char first[NAME_BYTES_MAX + 1]; /* of the first one that was kept */
    char buf[UPLOAD_BYTES];         /* in the end the Location, encoded */
};

extern const struct http_store upload_store; /* upload.c */

/* --- upload_open.c ---------------------------------------------------------------------------- */

/* Reads --upload: an exit code.  *at, as in struct upload_to, is to be freed. */
int  upload_find(char **at, const char *named);
/* Whether the folder is there and takes files of this process; the same. */
int  upload_try(const struct upload_to *to);

/* --- upload_write.c --------------------------------------------------------------------------- */

/* NULL: there are too many, or there is no memory. */
struct upload *upload_make(const struct upload_to *to);
void upload_drop(struct loop *l, const struct conn *c, struct upload *u);
/* A helper for the loop: 0 or -errno. */
int  upload_helper_open(struct loop *l);
/* Takes bytes of the file.  Returns how many, or -EINPROGRESS, or -status. */
long upload_bytes(struct loop *l, const struct conn *c, struct upload *u, struct slice bytes);
/* The file is complete.  Returns 0 if it has its name, or -EINPROGRESS, or -status. */
int  upload_keep(struct loop *l, const struct conn *c, struct upload *u);

/* --- upload_name.c ---------------------------------------------------------------------------- */

/* 0: the file may have that name, which is u->name from now on; or -status. */
int  upload_name(struct upload *u, struct slice name);
/* Whether a path has a name that is never stored: it begins with a dot. */
bool upload_is_hidden(const struct docroot_rules *rules, struct slice path);

/* --- upload_form.c ---------------------------------------------------------------------------- */

/* A form with the boundary of that Content-Type: 0 or -status. */
int  form_open(struct form **form, struct slice type);
long form_put(struct loop *l, const struct conn *c, struct upload *u, struct slice bytes);
/* The body is complete: 0 or -status. */
int  form_done(const struct upload *u);

/* --- upload_file.c: 0, a descriptor, or -status ----------------------------------------------- */

int  upload_folder_open(int root_fd, const char *path); /* as a URL has it, with slashes */
int  upload_file_open(int folder);
/* Whether the name is taken; whether that many bytes fit on the disk. */
bool upload_is_taken(int folder, const char *name);
bool upload_fits(int folder, uint64_t bytes);
int  upload_file_write(int fd, const char *bytes, size_t n);
int  upload_file_name(int fd, int folder, const char *name);

#endif
