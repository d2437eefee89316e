/* SPDX-License-Identifier: MIT */
/* fields.c - fields that options add to answers, each to those of some paths.
 *
 * A field of --header belongs to what was found: an error must not be cached because the file would
 * be, nor get the policy of a page that it is not.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "../base/option.h"
#include "../base/say.h"
#include "rules.h"

/* --- Reading ---------------------------------------------------------------------------------- */

static bool is_token(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static size_t name_of(const char *text)
{
    size_t n = 0;

    while (is_token(text[n]))
        n++;
    return text[n] == ':' ? n : 0;
}

static bool is_one_of(const char *name, size_t n, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == n && strncasecmp(name, *list, n) == 0)
            return true;
    return false;
}

/* Fields that say what an answer is, or how it is sent. */
static const char *const own[] = {
    "Accept-Ranges", "Allow", "Connection", "Content-Encoding", "Content-Length", "Content-Range",
    "Content-Type", "Date", "ETag", "Keep-Alive", "Last-Modified", "Location", "Retry-After",
    "Server", "Server-Timing", "Trailer", "Transfer-Encoding", "Upgrade", "Vary",
    "WWW-Authenticate", "X-Content-Type-Options", NULL};
/* Fields that a listing has of its own. */
static const char *const listings[] = {"Cache-Control", "Content-Security-Policy", NULL};

/* Why that is no field, or NULL. */
static const char *refusal(const char *line)
{
    size_t name = name_of(line), n = strlen(line);
    const char *value = line + name + 1;

    if (!name)
        return "write 'Name: value', or 'GLOB Name: value'";
    if (is_one_of(line, name, own))
        return "rung sends this field itself";
    value += strspn(value, " \t");
    if (!*value || line[n - 1] == ' ' || line[n - 1] == '\t')
        return "its value is empty, or ends with a space";
    for (; *value; value++)
        if (((unsigned char)*value < ' ' && *value != '\t') || *value == 0x7f)
            return "its value has a control character";
    return NULL;
}

static int add(struct fields *f, const struct field *field, const char *line)
{
    size_t name = field->name_len, n;
    const char *value = line + name + 1;

    value += strspn(value, " \t");
    n = name + 2 + strlen(value) + 2;
    if (f->count == FIELDS_MAX || f->used + n + 1 > sizeof(f->text))
        return -1;
    f->row[f->count] = *field;
    f->row[f->count].line = f->text + f->used;
    f->row[f->count++].len = n;
    snprintf(f->text + f->used, n + 1, "%.*s: %s\r\n", (int)name, line, value);
    f->used += n + 1;
    f->globs = f->globs || field->glob;
    return 0;
}

static int say_full(void)
{
    say_error("--header: all fields together have more than %d bytes", FIELDS_BYTES_MAX);
    return EXIT_USAGE;
}

int fields_add(struct fields *f, enum field_when when, const char *line)
{
    struct field field = {.when = when, .name_len = name_of(line)};

    return add(f, &field, line) ? say_full() : EXIT_DONE;
}

/* The glob in front of the field becomes a text of its own. */
static int read_one(struct fields *f, const char *text)
{
    struct field field = {.when = FIELD_FOUND};
    size_t glob = name_of(text) ? 0 : strcspn(text, " \t");
    const char *line = text + glob + (glob ? strspn(text + glob, " \t") : 0);
    const char *why = refusal(line);

    if (why) {
        say_error("--header '%s': %s", text, why);
        return EXIT_USAGE;
    }
    field.name_len = name_of(line);
    if (is_one_of(line, field.name_len, listings))
        field.when = FIELD_FILES;
    if (!glob)
        return add(f, &field, line) ? say_full() : EXIT_DONE;
    if (f->used + glob + 1 > sizeof(f->text))
        return say_full();
    field.glob = f->text + f->used;
    memcpy(f->text + f->used, text, glob);
    f->text[f->used + glob] = '\0';
    f->used += glob + 1;
    return add(f, &field, line) ? say_full() : EXIT_DONE;
}

int fields_read(struct fields *f, const struct option_list *list)
{
    int code = EXIT_DONE;

    for (unsigned i = 0; i < list->count && !code; i++)
        code = read_one(f, list->item[i]);
    return code;
}

/* --- Writing ---------------------------------------------------------------------------------- */

static bool is_found(unsigned status)
{
    return status < 400;
}

static bool is_when(const struct field *field, const struct fields_of *of)
{
    switch (field->when) {
    case FIELD_FOUND:
        return is_found(of->status);
    case FIELD_FILES:
        return is_found(of->status) && !of->made;
    case FIELD_PREFLIGHT:
        return of->status == 200 && !of->path;
    case FIELD_SECURE:
        return of->secure;
    case FIELD_ALWAYS:
        break;
    }
    return true;
}

/* A glob with a slash is for the whole path: '*' matches within a name, and a path below the one
 * that matches matches, too.  One without a slash is for the last name. */
static bool is_for(const struct field *field, const char *path)
{
    if (!field->glob)
        return true;
    if (!path)
        return false;
    if (strchr(field->glob, '/'))
        return fnmatch(field->glob, path, FNM_PATHNAME | FNM_LEADING_DIR | FNM_NOESCAPE) == 0;
    return fnmatch(field->glob, strrchr(path, '/') + 1, FNM_NOESCAPE) == 0;
}

static bool is_same(const struct field *a, const struct field *b)
{
    return a->name_len == b->name_len && strncasecmp(a->line, b->line, a->name_len) == 0;
}

size_t fields_write(const struct fields *f, const struct fields_of *of, char *out)
{
    const struct field *sent[FIELDS_MAX];
    unsigned count = 0;
    size_t n = 0;

    for (unsigned i = f->count; i-- > 0;) {
        const struct field *field = &f->row[i];
        unsigned other = 0;

        if (!is_when(field, of) || !is_for(field, of->path))
            continue;
        while (other < count && !is_same(field, sent[other]))
            other++;
        if (other == count)
            sent[count++] = field;
    }
    while (count-- > 0) {
        memcpy(out + n, sent[count]->line, sent[count]->len);
        n += sent[count]->len;
    }
    return n;
}
