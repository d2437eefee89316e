/* SPDX-License-Identifier: MIT */
/* config.c - options from a file (--config).  Keys are the long names of options.def, and values go
 * through the same parser as on the command line, so a bad one gets the same sentence, after the
 * file's name and the line.
 *
 * The file is read before anything is opened or any right is given up, and once: texts stay where
 * the TOML reader has put them (base/toml.h).  A [[host]] takes the rows that are .site, and begins
 * with the values of the rest of the file.  Every value is checked, also one that counts for
 * nothing because the command line or the environment has another.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../base/toml.h"
#include "serve.h"

struct reading {
    struct serve_config *config;
    const struct option_found *before; /* what was given already */
    struct option_found found;         /* for its sentence */
    struct serve_options unused;       /* takes values that count for nothing */
};

static int complain(const struct reading *r, unsigned line, const char *sentence)
{
    say_error("%s:%u: %s", r->config->opt.config, line, sentence);
    return EXIT_USAGE;
}

/* --- Values ----------------------------------------------------------------------------------- */

static const char *kind_of(const struct toml_item *item)
{
    switch (item->kind) {
    case TOML_STRING:
        return "text";
    case TOML_INTEGER:
        return "a number";
    case TOML_BOOLEAN:
        return "true or false";
    case TOML_ARRAY:
        return "an array";
    case TOML_TABLE:
    case TOML_ELEMENT:
        break;
    }
    return "a table";
}

/* item: the value, or the element of an array that is wrong. */
static int refuse_kind(struct reading *r, const struct option_row *row,
                       const struct toml_item *item)
{
    static const char *const wanted[] = {
        [OPTION_FLAG] = "true or false",
        [OPTION_SWITCH] = "true or false",
        [OPTION_NUMBER] = "a number",
        [OPTION_SIZE] = "a number of bytes, or text such as \"64k\"",
        [OPTION_TIME] = "a number of seconds, or text such as \"500ms\"",
        [OPTION_TEXT] = "text, in quotes",
        [OPTION_CHOICE] = "text, in quotes",
        [OPTION_LIST] = "an array of texts: [\"one\", \"two\"]",
    };
    char sentence[OPTION_ERROR_TEXT];

    snprintf(sentence, sizeof(sentence), "%s: it takes %s, not %s", row->name, wanted[row->type],
             kind_of(item));
    return complain(r, item->line, sentence);
}

/* The value as it would be typed; NULL: it is of another kind.  buf: for a number. */
static const char *typed(enum option_type type, const struct toml_item *item,
                         char buf[OPTION_VALUE_TEXT])
{
    bool number = type == OPTION_NUMBER || type == OPTION_SIZE || type == OPTION_TIME;

    if (type == OPTION_FLAG || type == OPTION_SWITCH)
        return item->kind != TOML_BOOLEAN ? NULL : item->number ? "on" : "off";
    if (item->kind == TOML_STRING)
        return item->text;
    if (item->kind != TOML_INTEGER || !number)
        return NULL;
    snprintf(buf, OPTION_VALUE_TEXT, "%lld", (long long)item->number);
    return buf;
}

static int take_one(struct reading *r, const struct option_row *row, void *target,
                    const struct toml_item *item)
{
    char buf[OPTION_VALUE_TEXT];
    const char *text = typed(row->type, item, buf);

    if (!text)
        return refuse_kind(r, row, item);
    if (option_assign(row, target, text, &r->found))
        return complain(r, item->line, r->found.error);
    return EXIT_DONE;
}

/* An array stands for all items of a list: nothing of the default stays. */
static int take_list(struct reading *r, const struct option_row *row, void *target,
                     const struct toml_item *array)
{
    struct option_list *list = (struct option_list *)((char *)target + row->offset);
    char sentence[OPTION_ERROR_TEXT];
    int code = EXIT_DONE;

    if (array->kind != TOML_ARRAY)
        return refuse_kind(r, row, array);
    list->count = 0;
    for (unsigned i = 1; i <= array->count && !code; i++)
        code = take_one(r, row, target, &array[i]);
    if (code || array->count || !row->fallback)
        return code;
    snprintf(sentence, sizeof(sentence), "%s: it needs at least one item; leave the key out for %s",
             row->name, row->fallback);
    return complain(r, array->line, sentence);
}

static int take_value(struct reading *r, const struct option_row *row, void *target,
                      const struct toml_item *item)
{
    if (row->type == OPTION_LIST)
        return take_list(r, row, target, item);
    return take_one(r, row, target, item);
}

/* --- Keys ------------------------------------------------------------------------------------- */

static int take_root(struct reading *r, const char **root, const struct toml_item *item)
{
    if (item->kind != TOML_STRING || !*item->text)
        return complain(r, item->line, "root: it takes the path of a folder or a file, in quotes");
    *root = item->text;
    return EXIT_DONE;
}

/* A key at the top of the file. */
static int take_key(struct reading *r, const struct toml_item *item)
{
    static const char *const more[] = {"root", NULL};
    const struct option_row *row = option_find(&serve_table, item->key);
    struct serve_config *c = r->config;
    const char *unused;

    if (strcmp(item->key, "root") == 0)
        return take_root(r, c->root ? &unused : &c->root, item);
    if (!row) {
        option_unknown(&serve_table, item->key, more, &r->found);
        return complain(r, item->line, r->found.error);
    }
    if (row->offset == offsetof(struct serve_options, config))
        return complain(r, item->line, "config: a file names no other file; write its keys here");
    return take_value(r, row, r->before->given[row - serve_table.row] ? &r->unused : &c->opt, item);
}

/* --- Hosts ------------------------------------------------------------------------------------ */

static int take_names(struct reading *r, struct serve_host *host, const struct toml_item *array)
{
    bool fine = array->kind == TOML_ARRAY && array->count > 0;

    for (unsigned i = 1; fine && i <= array->count; i++)
        fine = array[i].kind == TOML_STRING;
    if (!fine)
        return complain(r, array->line, "name: it takes an array of names: [\"example.org\"]");
    host->names = array;
    return EXIT_DONE;
}

/* A key of the last host. */
static int take_host_key(struct reading *r, const struct toml_item *item)
{
    static const char *const more[] = {"root", "name", NULL};
    const struct option_row *row = option_find(&serve_table, item->key);
    struct serve_host *host = &r->config->host[r->config->hosts - 1];
    char sentence[OPTION_ERROR_TEXT];

    if (strcmp(item->key, "root") == 0)
        return take_root(r, &host->root, item);
    if (strcmp(item->key, "name") == 0)
        return take_names(r, host, item);
    if (!row) {
        option_unknown(&serve_table, item->key, more, &r->found);
        return complain(r, item->line, r->found.error);
    }
    if (!row->site) {
        snprintf(sentence, sizeof(sentence), "%s: it is for the whole server; write it above the "
                 "first [[host]]", row->name);
        return complain(r, item->line, sentence);
    }
    if (row->offset == offsetof(struct serve_options, tls))
        host->certified = true;
    return take_value(r, row, &host->opt, item);
}

/* What the last host, if there is one, must have. */
static int end_host(struct reading *r)
{
    struct serve_config *c = r->config;
    const struct serve_host *host = c->hosts ? &c->host[c->hosts - 1] : NULL;

    if (host && !host->names)
        return complain(r, host->line, "host: it has no name; write name = [\"example.org\"]");
    if (host && !host->root)
        return complain(r, host->line, "host: it has no root; write root = \"/srv/www\"");
    return EXIT_DONE;
}

/* A host begins with the values of the top of the file and the command line. */
static int begin_host(struct reading *r, const struct toml_item *item)
{
    struct serve_config *c = r->config;
    char sentence[OPTION_ERROR_TEXT];

    if (strcmp(item->key, "host") != 0 || item->kind != TOML_ELEMENT) {
        snprintf(sentence, sizeof(sentence), "%s: no such table; the only one is [[host]]",
                 item->key);
        return complain(r, item->line, sentence);
    }
    if (c->hosts == HOSTS_MAX) {
        snprintf(sentence, sizeof(sentence), "host: at most %d of them", HOSTS_MAX);
        return complain(r, item->line, sentence);
    }
    if (!c->host)
        c->host = calloc(HOSTS_MAX, sizeof(*c->host));
    if (!c->host)
        return complain(r, item->line, say_why(ENOMEM));
    c->host[c->hosts++] = (struct serve_host){.line = item->line, .opt = c->opt};
    return EXIT_DONE;
}

/* --- The file --------------------------------------------------------------------------------- */

static int take_all(struct reading *r, const struct toml *t)
{
    int code = EXIT_DONE;

    for (unsigned i = 0; i < t->items && !code; i++) {
        const struct toml_item *item = &t->item[i];

        if (item->kind == TOML_TABLE || item->kind == TOML_ELEMENT) {
            code = end_host(r);
            code = code ? code : begin_host(r, item);
        } else {
            code = r->config->hosts ? take_host_key(r, item) : take_key(r, item);
        }
        i += item->count;
    }
    return code ? code : end_host(r);
}

/* Up to cap bytes of it, which a pipe may give bit by bit; or -errno. */
static ssize_t load(const char *path, char *bytes, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t part;

    if (fd < 0)
        return -errno;
    do {
        part = read(fd, bytes + n, cap - n);
        n += part > 0 ? (size_t)part : 0;
    } while (part > 0 && n < cap);
    part = part < 0 ? -errno : (ssize_t)n;
    close(fd);
    return part;
}

static int read_file(struct reading *r, char *bytes)
{
    struct serve_config *c = r->config;
    ssize_t n = load(c->opt.config, bytes, TOML_BYTES_MAX + 1);

    if (n < 0) {
        say_error("--config %s: cannot read it: %s", c->opt.config, say_why((int)n));
        return EXIT_USAGE;
    }
    if (toml_read(c->toml, bytes, (size_t)n))
        return complain(r, c->toml->error_line, c->toml->error);
    return take_all(r, c->toml);
}

int config_read(struct serve_config *config, const struct option_found *found)
{
    struct reading *r = calloc(1, sizeof(*r));
    char *bytes = malloc(TOML_BYTES_MAX + 1);
    int code = EXIT_FAILED;

    config->toml = malloc(sizeof(*config->toml));
    if (r && bytes && config->toml) {
        r->config = config;
        r->before = found;
        code = read_file(r, bytes);
    } else {
        say_error("cannot start: %s", say_why(ENOMEM));
    }
    free(bytes);
    free(r);
    return code;
}

void config_close(struct serve_config *config)
{
    free(config->host);
    free(config->toml);
    config->host = NULL;
    config->toml = NULL;
}
