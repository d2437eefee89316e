/* SPDX-License-Identifier: MIT */
/* hosts.h - the sites of a server: one, or one for each [[host]] of the configuration file, chosen
 * by the name that a request is for.
 *
 *   hosts_open.c   the sites, from options to open folders
 *   hosts_log.c    their access logs
 *   hosts.c        which of them has a name
 *   aim.c          a loop turns from one to another
 *
 * All is opened before the server's processes and threads exist, and does not change after that.
 * Each site has a cache of its own, so what two hosts call by the same path is never mixed.
 */
#ifndef SERVER_HOSTS_H
#define SERVER_HOSTS_H
#include "route.h"
#include "serve.h"
#include "tls.h"
#include "upload.h"

enum { HOST_TEXT = 256 }; /* a name has 253 bytes at most (RFC 1035 2.3.4); a dot and the NUL */

/* What logs and metrics call the site at the top of a file that has hosts, too. */
#define HOSTS_DEFAULT "default"

/* A site, and what belongs to it. */
struct hosted {
    const struct serve_options *opt;
    const struct serve_host *host; /* NULL: the top of the file, or there is none */
    const char *label; /* in logs and metrics; NULL: the file has no [[host]] */
    struct log *log;   /* NULL: off */
    struct served what;
    struct route route;
    struct site *site;
    char *upload_at;         /* NULL: no uploads */
    struct upload_to upload;
};

/* In lower case.  One that begins with a dot stands for all names that end with it. */
struct host_name {
    char text[HOST_TEXT];
    unsigned number; /* of its site */
};

struct hosts {
    unsigned count;         /* the first one is for all names that no other has */
    unsigned names;
    struct host_name *name; /* sorted */
    struct tls_pairs tls;   /* of all sites */
    struct hosted row[];
};

/* Reads what the options say of each site, and finds what is served; an exit code. */
int  hosts_open(struct hosts **hosts, const struct serve_config *config);
/* Opens the folders, as the user that we remain; an exit code. */
int  hosts_open_sites(struct hosts *hosts, const struct serve_options *opt);
void hosts_close(struct hosts *hosts); /* NULL is fine */
/* Where uploads of that site go; NULL: nowhere.  hosts may be NULL. */
const struct upload_to *hosts_upload(const struct hosts *hosts, unsigned number);
bool hosts_take_uploads(const struct hosts *hosts); /* any of them */
void hosts_say(const struct hosts *hosts); /* which name has which folder */
unsigned hosts_labelled(const struct hosts *hosts); /* how many have a label: all or none */

/* --- hosts_log.c ------------------------------------------------------------------------------ */

/* Whether each file that is named gets lines; an exit code.  config: the file's name. */
int  hosts_check_logs(const struct hosts *hosts, const char *config);
/* Opens the logs, as the user that we remain; an exit code. */
int  hosts_open_logs(struct hosts *hosts, const struct server *srv);
void hosts_close_logs(struct hosts *hosts);
bool hosts_have_logs(const struct hosts *hosts);
/* Each file once, without stdout.  Returns how many. */
unsigned hosts_log_files(const struct hosts *hosts, const char *path[HOSTS_MAX + 1]);
/* Reopens all, and reports which cannot be; then false. */
bool hosts_reopen_logs(const struct hosts *hosts);

/* --- hosts.c ---------------------------------------------------------------------------------- */

/* Fills the table of names, which is sorted then; 0 or -errno: -EINVAL: it is no name, -EEXIST: it
 * is there already. */
int  hosts_name(struct hosts *hosts, const char *text, unsigned number);
/* What follows http:// in the target, or the field Host; empty: neither is there. */
struct slice hosts_authority(const struct http_head *head);
/* The name in an authority: in lower case, without port and final dot; "": there is none, or it is
 * too long to be one. */
void hosts_read(struct slice authority, char name[HOST_TEXT]);
/* The number of the site that has that name: by the name itself, otherwise by the longest ending,
 * otherwise 0. */
unsigned hosts_find(const struct hosts *hosts, const char *name);

#endif
