/* SPDX-License-Identifier: MIT */
/* rules.h - what options add to answers: fields, redirects, and for which clients.
 *
 * All is read once, before the server's processes and threads exist, and does not change after
 * that, except the passwords that were found right (auth.c).  Functions that return an exit code
 * have reported what was wrong.
 */
#ifndef SERVER_RULES_H
#define SERVER_RULES_H
#include "../core/http.h"

struct option_list;
struct serve_options;
struct address;

/* --- fields.c: fields of answers, by path ----------------------------------------------------- */
enum {
    FIELDS_MAX = 24,  /* those of --header, and those of other options */
    /* All together, as they are sent: an answer's head has room for them. */
    FIELDS_BYTES_MAX = 1024,
};

/* When a field is sent. */
enum field_when {
    FIELD_FOUND,     /* 200, 206, 304 and redirects */
    FIELD_FILES,     /* ... but not of a listing, which has a field of that name itself */
    FIELD_ALWAYS,    /* of errors, too */
    FIELD_PREFLIGHT, /* OPTIONS alone */
    FIELD_SECURE,    /* ALWAYS, and by https */
};

struct field {
    enum field_when when;
    const char *glob; /* of paths, or of names if it has no slash; NULL: of all */
    const char *line; /* "Name: value\r\n" */
    size_t len, name_len;
};

struct fields {
    unsigned count;
    bool globs; /* one of them has a glob */
    size_t used;
    struct field row[FIELDS_MAX];
    char text[FIELDS_BYTES_MAX];
};

/* Later ones win over earlier ones of the same name. */
int fields_add(struct fields *f, enum field_when when, const char *line);
/* --header: "Name: value", or "GLOB Name: value". */
int fields_read(struct fields *f, const struct option_list *list);

struct fields_of {
    unsigned status;
    const char *path; /* NUL-terminated; NULL: nothing was looked for */
    bool made, secure;
};
/* Returns bytes, up to FIELDS_BYTES_MAX. */
size_t fields_write(const struct fields *f, const struct fields_of *of, char *out);

/* --- moves.c: redirects ----------------------------------------------------------------------- */
enum { MOVES_MAX = 8 }; /* as many as a list of options has */

struct move {
    char from[PATH_BYTES_MAX]; /* decoded */
    size_t from_len, to_len;   /* without the final '*' */
    const char *to;
    bool rest; /* both end with '*', which stands for the rest of the path */
    unsigned status;
};

struct moves {
    unsigned count;
    struct move row[MOVES_MAX];
};

/* --redirect: "FROM TO [STATUS]". */
int moves_read(struct moves *m, const struct option_list *list);
/* The first one for that path, or NULL. */
const struct move *moves_find(const struct moves *m, struct slice path);

/* --- peers.c: clients by address -------------------------------------------------------------- */
struct peers;
/* --allow, --deny: "ADDRESS[/BITS]" or "unix"; *peers stays NULL without them. */
int peers_open(struct peers **peers, const struct serve_options *opt);
void peers_close(struct peers *peers); /* NULL is fine */
/* Whether the client with that address may be served; ADDRESS_NONE may not. */
bool peers_admit(const struct peers *peers, const struct address *client);

/* --- auth.c: names and passwords (RFC 7617) --------------------------------------------------- */
struct auth;
/* Reads a file of "NAME:HASH" lines. */
int auth_open(struct auth **auth, const char *path);
void auth_close(struct auth *auth); /* NULL is fine */
/* The value of the head's Authorization; ptr NULL: it has none, or several. */
struct slice auth_credentials(const struct http_head *head);
/* 0: right, and known to be; -EKEYREJECTED: none, or of another kind; -EINPROGRESS: only
 * auth_check() can tell. */
int auth_known(const struct auth *auth, struct slice credentials);
/* Takes as long as the hash is made to take, some 0.1 s.  0 or -EKEYREJECTED.  On any thread. */
int auth_check(struct auth *auth, struct slice credentials);

#endif
