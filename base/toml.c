/* SPDX-License-Identifier: MIT */
/* toml.c - the reader of toml.h: lines, tables, keys and arrays, by https://toml.io/en/v1.0.0.
 *
 * Bytes are checked first, for the whole file: they are UTF-8, and the only control characters are
 * tabs and line ends.  After that no string and no comment has to look for these again.
 *
 * A text is copied without its quotes, and an escape is never shorter than what it stands for.  So
 * all texts together, with their NULs, are at most one byte longer than the file: a bare key at its
 * very end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "toml_inside.h"

/* --- Bytes ------------------------------------------------------------------------------------ */

/* Bytes of the character at s, of n bytes that are left; 0: it is not UTF-8 (RFC 3629 4). */
static size_t character(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3
                 : s[0] < 0xf5 ? 4 : 0;

    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

static int check_bytes(struct toml_parse *p)
{
    if (p->end - p->at >= 3 && memcmp(p->at, "\xef\xbb\xbf", 3) == 0)
        return toml_refuse(p, "a byte order mark, which cannot be seen, is in front of the text; "
                              "save the file as UTF-8 without it");
    for (const char *s = p->at; s < p->end;) {
        size_t left = (size_t)(p->end - s), len = character((const unsigned char *)s, left);
        unsigned char c = (unsigned char)*s;

        if (len == 0)
            return toml_refuse(p, "byte 0x%02x is not UTF-8 here; save the file as UTF-8", c);
        if (c == '\r' && left > 1 && s[1] == '\n')
            c = '\t';
        if ((c < ' ' && c != '\t' && c != '\n') || c == 0x7f)
            return toml_refuse(p, "control character 0x%02x; remove it, or write \\u%04x in a "
                                  "string with double quotes", c, c);
        p->line += c == '\n';
        s += len;
    }
    return 0;
}

static void skip_blanks(struct toml_parse *p)
{
    while (is_at(p, ' ') || is_at(p, '\t'))
        p->at++;
}

static void skip_comment(struct toml_parse *p)
{
    if (is_at(p, '#'))
        while (!at_end(p))
            p->at++;
}

/* The end of a line, if we are there. */
static bool take_line_end(struct toml_parse *p)
{
    take(p, '\r');
    if (!take(p, '\n'))
        return false;
    p->line++;
    return true;
}

static bool is_bare(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* --- Arrays ----------------------------------------------------------------------------------- */

/* Blanks, comments and line ends between the elements of an array. */
static void skip_lines(struct toml_parse *p)
{
    do {
        skip_blanks(p);
        skip_comment(p);
    } while (take_line_end(p));
}

static int read_array(struct toml_parse *p, const char *key)
{
    struct toml_item *array = toml_add(p, TOML_ARRAY, key);
    unsigned first = p->line;
    bool more = true;
    int err = 0;

    if (!array)
        return -EINVAL;
    p->at++;
    for (skip_lines(p); more && !is_at(p, ']') && p->at < p->end && !err; skip_lines(p)) {
        if (is_at(p, '['))
            return toml_refuse(p, "an array within an array is not read");
        err = toml_scalar(p, NULL);
        array->count++;
        skip_lines(p);
        more = take(p, ',');
    }
    if (err)
        return err;
    if (p->at == p->end)
        return toml_refuse(p, "the array that begins in line %u has no ] at its end", first);
    if (!take(p, ']'))
        return toml_refuse(p, "there is no comma between two elements of an array");
    return 0;
}

/* --- Keys and tables -------------------------------------------------------------------------- */

static int read_key(struct toml_parse *p, const char **key)
{
    int err = 0;

    if (is_at(p, '"') || is_at(p, '\'')) {
        err = toml_string(p, key);
    } else {
        *key = p->toml->text + p->used;
        while (p->at < p->end && is_bare(*p->at))
            put(p, *p->at++);
        put(p, '\0');
        if (!**key)
            return toml_refuse(p, "there is no key here; it has letters, digits, - and _, or is in "
                                  "quotes: port = 8080");
    }
    if (err)
        return err;
    skip_blanks(p);
    if (is_at(p, '.'))
        return toml_refuse(p, "a dotted key is not read; write %s as a table of its own", *key);
    return 0;
}

/* The item of that key among those from `first` on, or NULL. */
static const struct toml_item *find(const struct toml *t, unsigned first, const char *key)
{
    for (unsigned i = first; i < t->items; i++)
        if (t->item[i].key && strcmp(t->item[i].key, key) == 0)
            return &t->item[i];
    return NULL;
}

static int read_pair(struct toml_parse *p)
{
    const struct toml_item *before;
    const char *key;
    int err = read_key(p, &key);

    if (err)
        return err;
    before = find(p->toml, p->table, key);
    if (before)
        return toml_refuse(p, "%s is given twice: line %u has it, too; leave one out", key,
                           before->line);
    if (!take(p, '='))
        return toml_refuse(p, "there is no = after %s; write %s = and its value", key, key);
    skip_blanks(p);
    return is_at(p, '[') ? read_array(p, key) : toml_scalar(p, key);
}

static bool is_table(const struct toml_item *item)
{
    return item->kind == TOML_TABLE || item->kind == TOML_ELEMENT;
}

/* The item of that name at the top of the file: a key before the first table, or a table; or
 * NULL. */
static const struct toml_item *find_at_top(const struct toml *t, const char *key)
{
    bool top = true;

    for (unsigned i = 0; i < t->items; i++) {
        const struct toml_item *item = &t->item[i];

        top = top && !is_table(item);
        if ((top || is_table(item)) && item->key && strcmp(item->key, key) == 0)
            return item;
    }
    return NULL;
}

static int read_header(struct toml_parse *p)
{
    const struct toml_item *before;
    enum toml_kind kind;
    const char *key;
    int err;

    p->at++;
    kind = take(p, '[') ? TOML_ELEMENT : TOML_TABLE;
    skip_blanks(p);
    err = read_key(p, &key);
    if (err)
        return err;
    if (!take(p, ']') || (kind == TOML_ELEMENT && !take(p, ']')))
        return toml_refuse(p, "there is no %s after the table's name",
                           kind == TOML_ELEMENT ? "]]" : "]");
    before = find_at_top(p->toml, key);
    if (before && (before->kind != TOML_ELEMENT || kind != TOML_ELEMENT))
        return toml_refuse(p, "%s is given twice: line %u has it, too", key, before->line);
    p->table = p->toml->items + 1;
    return toml_add(p, kind, key) ? 0 : -EINVAL;
}

/* --- Lines ------------------------------------------------------------------------------------ */

static int read_line(struct toml_parse *p)
{
    struct toml_word w;
    int err = 0;

    skip_blanks(p);
    if (is_at(p, '['))
        err = read_header(p);
    else if (!at_end(p) && !is_at(p, '#'))
        err = read_pair(p);
    if (err)
        return err;
    skip_blanks(p);
    skip_comment(p);
    if (p->at == p->end || take_line_end(p))
        return 0;
    w = toml_word(p);
    return toml_refuse(p, "something follows here: '%.*s'; begin a new line, or write # before it",
                       w.len ? toml_shown(w) : 1, w.ptr);
}

int toml_read(struct toml *toml, const char *bytes, size_t n)
{
    struct toml_parse p = {.toml = toml, .at = bytes, .end = bytes + n, .line = 1};
    int err;

    toml->items = 0;
    toml->error[0] = '\0';
    toml->error_line = 0;
    if (n > TOML_BYTES_MAX)
        return toml_refuse(&p, "the file has more than %d bytes", TOML_BYTES_MAX);
    err = check_bytes(&p);
    p.line = err ? p.line : 1;
    while (!err && p.at < p.end)
        err = read_line(&p);
    return err;
}

/* --- Writing ---------------------------------------------------------------------------------- */

size_t toml_quote(char *out, size_t cap, const char *text)
{
    static const char letters[] = "btnfr\"\\", meant[] = "\b\t\n\f\r\"\\";
    size_t len = 0;

    for (size_t i = 0, n = strlen(text); i < n + 2; i++) {
        char c = i == 0 || i == n + 1 ? '"' : text[i - 1], piece[8] = {c, '\0'};
        const char *at = i > 0 && i <= n ? strchr(meant, c) : NULL;

        if (at)
            snprintf(piece, sizeof(piece), "\\%c", letters[at - meant]);
        else if ((unsigned char)c < ' ' || c == 0x7f)
            snprintf(piece, sizeof(piece), "\\u%04x", (unsigned char)c);
        for (const char *s = piece; *s; s++, len++)
            if (len + 1 < cap)
                out[len] = *s;
    }
    if (cap)
        out[len < cap ? len : cap - 1] = '\0';
    return len;
}
