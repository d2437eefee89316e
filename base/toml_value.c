/* SPDX-License-Identifier: MIT */
/* toml_value.c - strings, numbers and booleans of toml.h, and what is said about other values. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "toml_inside.h"

int toml_refuse(struct toml_parse *p, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(p->toml->error, sizeof(p->toml->error), format, ap);
    va_end(ap);
    p->toml->error_line = p->line;
    return -EINVAL;
}

struct toml_item *toml_add(struct toml_parse *p, enum toml_kind kind, const char *key)
{
    struct toml *t = p->toml;

    if (t->items == TOML_ITEMS_MAX) {
        toml_refuse(p, "there are more than %d values", TOML_ITEMS_MAX);
        return NULL;
    }
    t->item[t->items] = (struct toml_item){.kind = kind, .line = p->line, .key = key};
    return &t->item[t->items++];
}

/* What stands here, for messages: up to a blank or a separator. */
struct toml_word toml_word(const struct toml_parse *p)
{
    struct toml_word w = {p->at, 0};

    while (w.ptr + w.len < p->end && !strchr(" \t\r\n,]#=", w.ptr[w.len]))
        w.len++;
    return w;
}

int toml_shown(struct toml_word w)
{
    enum { SHOWN_MAX = 40 };

    return w.len < SHOWN_MAX ? (int)w.len : SHOWN_MAX;
}

/* --- Strings ---------------------------------------------------------------------------------- */

static void put_character(struct toml_parse *p, uint32_t code)
{
    if (code < 0x80) {
        put(p, (char)code);
    } else if (code < 0x800) {
        put(p, (char)(0xc0 | code >> 6));
        put(p, (char)(0x80 | (code & 0x3f)));
    } else {
        if (code < 0x10000) {
            put(p, (char)(0xe0 | code >> 12));
        } else {
            put(p, (char)(0xf0 | code >> 18));
            put(p, (char)(0x80 | (code >> 12 & 0x3f)));
        }
        put(p, (char)(0x80 | (code >> 6 & 0x3f)));
        put(p, (char)(0x80 | (code & 0x3f)));
    }
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* \uXXXX or \UXXXXXXXX: a character that Unicode has. */
static int read_code(struct toml_parse *p, unsigned digits)
{
    uint32_t code = 0;

    for (unsigned i = 0; i < digits; i++) {
        int digit = at_end(p) ? 99 : digit_of(*p->at);

        if (digit > 15)
            return toml_refuse(p, "\\%c needs %u hexadecimal digits after it",
                               digits == 4 ? 'u' : 'U', digits);
        code = code << 4 | (uint32_t)digit;
        p->at++;
    }
    if (code == 0)
        return toml_refuse(p, "\\u0000: no option has a NUL in it; leave it out");
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return toml_refuse(p, "%x is not a character of Unicode", code);
    put_character(p, code);
    return 0;
}

static int read_escape(struct toml_parse *p)
{
    static const char letters[] = "btnfr\"\\", meant[] = "\b\t\n\f\r\"\\";
    char c = at_end(p) ? '\0' : *p->at++;
    const char *letter = c ? strchr(letters, c) : NULL;

    if (c == 'u' || c == 'U')
        return read_code(p, c == 'u' ? 4 : 8);
    if (!letter)
        return toml_refuse(p, "a backslash without a meaning; write \\\\, or put the text in "
                              "single quotes");
    put(p, meant[letter - letters]);
    return 0;
}

/* The text in quotes that begins here. */
int toml_string(struct toml_parse *p, const char **text)
{
    char quote = *p->at++;

    if (p->end - p->at >= 2 && p->at[0] == quote && p->at[1] == quote)
        return toml_refuse(p, "a string of several lines (%c%c%c) is not read; write it in one "
                              "line, with \\n", quote, quote, quote);
    *text = p->toml->text + p->used;
    while (!at_end(p) && *p->at != quote) {
        char c = *p->at++;
        int err = 0;

        if (c == '\\' && quote == '"')
            err = read_escape(p);
        else
            put(p, c);
        if (err)
            return err;
    }
    if (!take(p, quote))
        return toml_refuse(p, "the text has no %c at its end", quote);
    put(p, '\0');
    return 0;
}

/* --- Other values ----------------------------------------------------------------------------- */

/* Digits with single underscores between them, as a number of that base; -ERANGE: it is too large;
 * -EINVAL: there is something else. */
static int read_digits(struct toml_word w, unsigned base, uint64_t *n)
{
    bool digit = false; /* the last byte was one */

    *n = 0;
    for (size_t i = 0; i < w.len; i++) {
        if (w.ptr[i] == '_' && digit) {
            digit = false;
            continue;
        }
        digit = (unsigned)digit_of(w.ptr[i]) < base;
        if (!digit)
            return -EINVAL;
        if (__builtin_mul_overflow(*n, base, n) ||
            __builtin_add_overflow(*n, (unsigned)digit_of(w.ptr[i]), n))
            return -ERANGE;
    }
    return digit ? 0 : -EINVAL;
}

/* 0, -EINVAL or -ERANGE as above. */
static int read_integer(struct toml_word w, int64_t *n)
{
    bool sign = w.len > 0 && (*w.ptr == '-' || *w.ptr == '+'), minus = sign && *w.ptr == '-';
    uint64_t most = (uint64_t)INT64_MAX + minus, size = 0;
    unsigned base = 10;
    int err;

    if (sign) {
        w.ptr++;
        w.len--;
    } else if (w.len > 2 && *w.ptr == '0') {
        base = w.ptr[1] == 'x' ? 16 : w.ptr[1] == 'o' ? 8 : w.ptr[1] == 'b' ? 2 : 10;
    }
    if (base != 10) {
        w.ptr += 2;
        w.len -= 2;
    } else if (w.len > 1 && *w.ptr == '0') {
        return -EINVAL; /* no leading zeros */
    }
    err = read_digits(w, base, &size);
    if (err)
        return err;
    if (size > most)
        return -ERANGE;
    *n = minus ? (int64_t)(0 - size) : (int64_t)size;
    return 0;
}

static bool word_is(struct toml_word w, const char *text)
{
    return w.len == strlen(text) && memcmp(w.ptr, text, w.len) == 0;
}

/* How many bytes at its start are among those. */
static size_t span(struct toml_word w, const char *bytes)
{
    size_t n = 0;

    while (n < w.len && strchr(bytes, w.ptr[n]))
        n++;
    return n;
}

static bool has(struct toml_word w, const char *bytes)
{
    for (size_t i = 0; i < w.len; i++)
        if (strchr(bytes, w.ptr[i]))
            return true;
    return false;
}

static bool is_date(struct toml_word w)
{
    static const char digits[] = "0123456789";
    size_t n = span(w, digits);

    return (n == 4 && w.len > 4 && w.ptr[4] == '-') || (n == 2 && w.len > 2 && w.ptr[2] == ':');
}

/* unsigned_: without a sign. */
static bool is_float(struct toml_word unsigned_)
{
    return word_is(unsigned_, "inf") || word_is(unsigned_, "nan") ||
           (has(unsigned_, "0123456789") && has(unsigned_, ".eE") &&
            span(unsigned_, "0123456789._eE+-") == unsigned_.len);
}

/* A word that is neither a boolean nor an integer. */
static int refuse_word(struct toml_parse *p, struct toml_word w, int err)
{
    size_t sign = w.len && (*w.ptr == '+' || *w.ptr == '-');
    struct toml_word bare = {w.ptr + sign, w.len - sign};

    if (!w.len)
        return toml_refuse(p, "there is no value; write a number, true, false, or text in quotes");
    if (err == -ERANGE)
        return toml_refuse(p, "%.*s does not fit in 64 bits", toml_shown(w), w.ptr);
    if (is_date(w))
        return toml_refuse(p, "%.*s is a date or a time of day, which are not read; write text in "
                              "quotes", toml_shown(w), w.ptr);
    if (is_float(bare))
        return toml_refuse(p, "%.*s is a float, which is not read; write a whole number, or text "
                              "in quotes", toml_shown(w), w.ptr);
    if (bare.len && *bare.ptr == '0' && span(bare, "0123456789") == bare.len)
        return toml_refuse(p, "%.*s: a number has no zeros in front; leave them out, or write text "
                              "in quotes", toml_shown(w), w.ptr);
    return toml_refuse(p, "%.*s is not a value; write text in quotes: \"%.*s\"", toml_shown(w),
                       w.ptr, toml_shown(w), w.ptr);
}

/* Everything but an array. */
int toml_scalar(struct toml_parse *p, const char *key)
{
    struct toml_word w = toml_word(p);
    struct toml_item *item;
    int err;

    if (is_at(p, '{'))
        return toml_refuse(p, "an inline table {...} is not read; write a table of its own");
    item = toml_add(p, TOML_STRING, key);
    if (!item)
        return -EINVAL;
    if (is_at(p, '"') || is_at(p, '\''))
        return toml_string(p, &item->text);
    item->kind = word_is(w, "true") || word_is(w, "false") ? TOML_BOOLEAN : TOML_INTEGER;
    item->number = word_is(w, "true");
    err = item->kind == TOML_INTEGER ? read_integer(w, &item->number) : 0;
    if (err)
        return refuse_word(p, w, err);
    p->at += w.len;
    return 0;
}

