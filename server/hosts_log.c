/* SPDX-License-Identifier: MIT */
/* hosts_log.c - the access logs of the sites.  Sites that name the same file each have their own
 * format, but the file is opened once, so no line is written into another.
 *
 * A site without a log has none; all that a loop asks is struct loop's log.
 */
#include <stdio.h>
#include <string.h>
#include "hosts.h"

static const char *path_of(const struct hosted *row)
{
    return row->opt->log_file;
}

/* The first site that has a log in that file, or NULL. */
static const struct hosted *first_in(const struct hosts *h, const char *path)
{
    for (unsigned i = 0; i < h->count; i++)
        if (h->row[i].opt->log != LOG_OFF && strcmp(path_of(&h->row[i]), path) == 0)
            return &h->row[i];
    return NULL;
}

int hosts_check_logs(const struct hosts *h, const char *config)
{
    for (unsigned i = 0; i < h->count; i++) {
        const struct hosted *row = &h->row[i];

        if (strcmp(path_of(row), "-") == 0 || first_in(h, path_of(row)))
            continue;
        say_error("--log-file %s: no log is kept; add --log combined or --log json", path_of(row));
        if (row->host)
            say_error("%s:%u: this is about that [[host]]", config, row->host->line);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* --- Opening ---------------------------------------------------------------------------------- */

static int open_one(const struct hosts *h, struct hosted *row, const struct server *srv)
{
    const struct hosted *first = first_in(h, path_of(row));
    enum log_format format = (enum log_format)row->opt->log;
    const char *user = srv->opt->user;
    int err;

    if (first == row)
        err = log_open(&row->log, format, path_of(row));
    else
        err = log_open_with(&row->log, format, first->log);
    if (!err) {
        log_site(row->log, row->label);
        log_clients(row->log, srv->clients);
        return EXIT_DONE;
    }
    say_error("cannot open the log %s: %s; choose another with --log-file%s%s", path_of(row),
              say_why(err), user ? ", writable for user " : "", user ? user : "");
    return EXIT_FAILED;
}

int hosts_open_logs(struct hosts *h, const struct server *srv)
{
    int code = EXIT_DONE;

    for (unsigned i = 0; i < h->count && !code; i++)
        if (h->row[i].opt->log != LOG_OFF)
            code = open_one(h, &h->row[i], srv);
    return code;
}

/* --- Files ------------------------------------------------------------------------------------ */

bool hosts_have_logs(const struct hosts *h)
{
    bool any = false;

    for (unsigned i = 0; i < h->count; i++)
        any = any || h->row[i].log;
    return any;
}

unsigned hosts_log_files(const struct hosts *h, const char *path[HOSTS_MAX + 1])
{
    unsigned n = 0;

    for (unsigned i = 0; i < h->count; i++)
        if (h->row[i].log && first_in(h, path_of(&h->row[i])) == &h->row[i] &&
            strcmp(path_of(&h->row[i]), "-") != 0)
            path[n++] = path_of(&h->row[i]);
    return n;
}

/* All others are reopened if one cannot be. */
bool hosts_reopen_logs(const struct hosts *h)
{
    bool fine = true;

    for (unsigned i = 0; i < h->count; i++) {
        const struct hosted *row = &h->row[i];
        int err = row->log && first_in(h, path_of(row)) == row ? log_reopen(row->log) : 0;

        if (err)
            say_error("cannot reopen the log %s: %s; still writing to the old file", path_of(row),
                      say_why(err));
        fine = fine && !err;
    }
    return fine;
}

void hosts_close_logs(struct hosts *h)
{
    for (unsigned i = h->count; i-- > 0;) {
        if (h->row[i].log)
            log_close(h->row[i].log);
        h->row[i].log = NULL;
    }
}
