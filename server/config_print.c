/* SPDX-License-Identifier: MIT */
/* config_print.c - options as a file that config.c reads: what rung config prints.
 *
 * All that can be said is in it, defaults too; an option without a value is a comment.  The file is
 * made in memory and read once before it is printed, so a text that TOML cannot hold, such as a
 * path that is not UTF-8, is an error and no broken file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "../base/toml.h"
#include "serve.h"

/* --- Values ----------------------------------------------------------------------------------- */

static const void *field_of(const struct serve_options *opt, const struct option_row *row)
{
    return (const char *)opt + row->offset;
}

/* Without memory for it nothing is written, and check() refuses the file. */
static void put_text(const char *text, FILE *out)
{
    size_t n = toml_quote(NULL, 0, text);
    char *quoted = malloc(n + 1);

    if (quoted) {
        toml_quote(quoted, n + 1, text);
        fputs(quoted, out);
    }
    free(quoted);
}

static void put_list(const struct option_list *list, FILE *out)
{
    putc('[', out);
    for (unsigned i = 0; i < list->count; i++) {
        fputs(i ? ", " : "", out);
        put_text(list->item[i], out);
    }
    putc(']', out);
}

static void put_quantity(enum option_type type, uint64_t n, FILE *out)
{
    char text[OPTION_VALUE_TEXT];

    option_text(type, n, text);
    fprintf(out, type == OPTION_NUMBER || n == 0 ? "%s" : "\"%s\"", text);
}

static void put_value(const struct option_row *row, const void *field, FILE *out)
{
    switch (row->type) {
    case OPTION_FLAG:
    case OPTION_SWITCH:
        fputs(*(const bool *)field ? "true" : "false", out);
        break;
    case OPTION_NUMBER:
    case OPTION_SIZE:
    case OPTION_TIME:
        put_quantity(row->type, *(const uint64_t *)field, out);
        break;
    case OPTION_TEXT:
        put_text(*(const char *const *)field, out);
        break;
    case OPTION_LIST:
        put_list(field, out);
        break;
    case OPTION_CHOICE:
        put_text(row->values[*(const unsigned *)field], out);
        break;
    }
}

static void put_row(const struct option_row *row, const struct serve_options *opt, FILE *out)
{
    const void *field = field_of(opt, row);
    char word[64];

    if (row->type == OPTION_TEXT && !*(const char *const *)field) {
        fprintf(out, "#%s = \"%s\"\n", row->name, option_value_word(row, word, sizeof(word)));
        return;
    }
    fprintf(out, "%s = ", row->name);
    put_value(row, field, out);
    putc('\n', out);
}

static bool is_key(const struct option_row *row)
{
    return row->offset != offsetof(struct serve_options, config);
}

/* The rows of one group together, as in help. */
static void put_group(const char *group, const struct serve_options *opt, FILE *out)
{
    const struct option_table *t = &serve_table;

    fprintf(out, "\n# %s\n", group);
    for (unsigned i = 0; i < t->rows; i++)
        if (strcmp(t->row[i].group, group) == 0 && is_key(&t->row[i]))
            put_row(&t->row[i], opt, out);
}

/* --- Hosts ------------------------------------------------------------------------------------ */

static bool same_list(const struct option_list *a, const struct option_list *b)
{
    bool same = a->count == b->count;

    for (unsigned i = 0; same && i < a->count; i++)
        same = strcmp(a->item[i], b->item[i]) == 0;
    return same;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_value(const struct option_row *row, const void *a, const void *b)
{
    switch (row->type) {
    case OPTION_FLAG:
    case OPTION_SWITCH:
        return *(const bool *)a == *(const bool *)b;
    case OPTION_NUMBER:
    case OPTION_SIZE:
    case OPTION_TIME:
        return *(const uint64_t *)a == *(const uint64_t *)b;
    case OPTION_TEXT:
        return same_text(*(const char *const *)a, *(const char *const *)b);
    case OPTION_LIST:
        return same_list(a, b);
    case OPTION_CHOICE:
        return *(const unsigned *)a == *(const unsigned *)b;
    }
    return false;
}

/* Rows with the value of the top of the file are left out, because a host inherits them. */
static void put_host(const struct serve_config *config, const struct serve_host *host, FILE *out)
{
    const struct option_table *t = &serve_table;

    fputs("\n[[host]]\nname = [", out);
    for (unsigned i = 0; i < host->names->count; i++) {
        fputs(i ? ", " : "", out);
        put_text(host->names[1 + i].text, out);
    }
    fputs("]\nroot = ", out);
    put_text(host->root, out);
    putc('\n', out);
    for (unsigned i = 0; i < t->rows; i++) {
        const struct option_row *row = &t->row[i];
        bool tls = row->offset == offsetof(struct serve_options, tls);

        if (row->site && ((tls && host->certified) ||
                          !same_value(row, field_of(&host->opt, row), field_of(&config->opt, row))))
            put_row(row, &host->opt, out);
    }
}

static void put_root(const struct serve_config *config, FILE *out)
{
    if (!config->root && config->hosts) {
        fputs("#root = \"PATH\"\n", out);
        return;
    }
    fputs("root = ", out);
    put_text(config->root ? config->root : ".", out);
    putc('\n', out);
}

static void put_all(const struct serve_config *config, FILE *out)
{
    const struct option_table *t = &serve_table;

    fputs("# Options of rung serve: rung --config FILE.  rung --help-all explains each.\n", out);
    put_root(config, out);
    for (unsigned i = 0; i < t->rows; i++)
        if (option_opens_group(t, i))
            put_group(t->row[i].group, &config->opt, out);
    for (unsigned i = 0; i < config->hosts; i++)
        put_host(config, &config->host[i], out);
}

/* --- The file --------------------------------------------------------------------------------- */

/* An exit code. */
static int check(const char *file, size_t n)
{
    struct toml *t = malloc(sizeof(*t));
    int err = t ? toml_read(t, file, n) : -ENOMEM;

    if (err == -ENOMEM)
        say_error("cannot print the configuration: %s", say_why(ENOMEM));
    else if (err)
        say_error("these options cannot be written as a file: in line %u, %s", t->error_line,
                  t->error);
    free(t);
    return err ? EXIT_FAILED : EXIT_DONE;
}

int config_print(const struct serve_config *config)
{
    char *file = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&file, &n);
    int code = EXIT_FAILED;

    if (out)
        put_all(config, out);
    if (out && fclose(out) == 0)
        code = check(file, n);
    else
        say_error("cannot print the configuration: %s", say_why(ENOMEM));
    if (!code)
        fwrite(file, 1, n, stdout);
    free(file);
    return code;
}
