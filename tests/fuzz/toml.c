/* SPDX-License-Identifier: MIT */
/* toml.c - fuzz the reader of configuration files: every text that it gives lies in its own memory,
 * a file that is refused has a sentence and a line, and a file that is read is written again and
 * read the same. */
#include <stdarg.h>
#include "../../base/toml.h"
#include "fuzz.h"

enum { WRITTEN_BYTES_MAX = 8 * TOML_BYTES_MAX };

static void check_text(const struct toml *t, const char *text)
{
    promise(text >= t->text && text < t->text + sizeof(t->text));
    promise(memchr(text, '\0', (size_t)(t->text + sizeof(t->text) - text)));
}

static void check(const struct toml *t, const char *bytes, size_t n)
{
    unsigned line = 1, lines = 1, elements = 0;

    for (size_t i = 0; i < n; i++)
        lines += bytes[i] == '\n';
    promise(t->items <= TOML_ITEMS_MAX);
    for (unsigned i = 0; i < t->items; i++) {
        const struct toml_item *item = &t->item[i];

        promise(item->line >= line && item->line <= lines);
        line = item->line;
        promise((item->key == NULL) == (elements > 0)); /* elements of an array follow it */
        elements -= elements > 0;
        if (item->key)
            check_text(t, item->key);
        if (item->kind == TOML_STRING)
            check_text(t, item->text);
        if (item->kind == TOML_ARRAY)
            elements = item->count;
        promise(item->kind != TOML_BOOLEAN || item->number == 0 || item->number == 1);
    }
    promise(elements == 0);
}

/* Less than TOML_ERROR_TEXT bytes, which there is room for. */
__attribute__((format(printf, 2, 3))) static size_t put(char *out, const char *format, ...)
{
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(out, TOML_ERROR_TEXT, format, ap);
    va_end(ap);
    return (size_t)n;
}

/* A file with the same items; quoted keys, one line for each item.  Returns its length. */
static size_t write_again(const struct toml *t, char *out)
{
    unsigned elements = 0;
    size_t n = 0;

    for (unsigned i = 0; i < t->items; i++) {
        const struct toml_item *item = &t->item[i];
        bool last = elements == 1;

        promise(n + 4 * TOML_ERROR_TEXT < WRITTEN_BYTES_MAX);
        if (item->kind == TOML_TABLE || item->kind == TOML_ELEMENT)
            n += put(out + n, "%s", item->kind == TOML_TABLE ? "[" : "[[");
        if (item->key)
            n += toml_quote(out + n, WRITTEN_BYTES_MAX - n, item->key);
        if (item->kind == TOML_TABLE || item->kind == TOML_ELEMENT)
            n += put(out + n, "%s", item->kind == TOML_TABLE ? "]" : "]]");
        else if (item->key)
            n += put(out + n, " = ");
        if (item->kind == TOML_STRING)
            n += toml_quote(out + n, WRITTEN_BYTES_MAX - n, item->text);
        if (item->kind == TOML_INTEGER)
            n += put(out + n, "%lld", (long long)item->number);
        if (item->kind == TOML_BOOLEAN)
            n += put(out + n, "%s", item->number ? "true" : "false");
        if (item->kind == TOML_ARRAY)
            n += put(out + n, "%s", item->count ? "[" : "[]");
        if (elements)
            n += put(out + n, "%s", last ? "]" : ",");
        elements = item->kind == TOML_ARRAY ? item->count : elements - (elements > 0);
        n += put(out + n, "\n");
    }
    return n;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void check_same(const struct toml *a, const struct toml *b)
{
    promise(a->items == b->items);
    for (unsigned i = 0; i < a->items; i++) {
        const struct toml_item *x = &a->item[i], *y = &b->item[i];

        promise(x->kind == y->kind && x->number == y->number && x->count == y->count);
        promise(same_text(x->key, y->key) && same_text(x->text, y->text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct toml first, again;
    static char written[WRITTEN_BYTES_MAX];
    char *copy = hard_copy(bytes, n);
    int err = toml_read(&first, copy, n);

    promise((err != 0) == (first.error[0] != '\0') && (err != 0) == (first.error_line > 0));
    if (!err) {
        check(&first, copy, n);
        n = write_again(&first, written);
        if (n <= TOML_BYTES_MAX) {
            promise(toml_read(&again, written, n) == 0);
            check_same(&first, &again);
        }
    }
    free(copy);
    return 0;
}
