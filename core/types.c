/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* types.c - content types: a binary search in a table made from Debian's media-types database.
 *
 * The type depends on the part after the last dot of the last component, in upper or lower case; a
 * name without a dot may be known as a whole (README, Makefile).  A leading dot does not begin an
 * extension: .png is a hidden file without one.  Cost: about eleven comparisons of a few bytes.
 */
#include "byte.h"
#include "mime_types.h"
#include "types.h"

static const char unknown[] = "application/octet-stream";

static const char *look_up(const struct type_row *row, size_t rows, const char *name, size_t n)
{
    char lower[TYPE_NAME_MAX + 1];
    size_t low = 0, i;

    if (n == 0 || n > TYPE_NAME_MAX)
        return unknown;
    for (i = 0; i < n; i++)
        lower[i] = (char)byte_lower(name[i]);
    lower[n] = '\0';
    if (strlen(lower) != n)
        return unknown;
    while (low < rows) {
        size_t middle = low + (rows - low) / 2;
        size_t len = strlen(row[middle].name);
        int order = memcmp(lower, row[middle].name, n < len ? n + 1 : len + 1); /* with its NUL */

        if (order == 0)
            return row[middle].type;
        if (order < 0)
            rows = middle;
        else
            low = middle + 1;
    }
    return unknown;
}

static const char *last(const char *text, size_t n, char byte)
{
    while (n > 0)
        if (text[--n] == byte)
            return text + n;
    return NULL;
}

const char *type_of(const char *path, size_t n)
{
    const char *slash = last(path, n, '/');
    const char *name = slash ? slash + 1 : path;
    size_t len = n - (size_t)(name - path);
    const char *dot = last(name, len, '.');

    if (!dot)
        return look_up(whole_names, sizeof(whole_names) / sizeof(whole_names[0]), name, len);
    if (dot == name)
        return unknown;
    dot++;
    len -= (size_t)(dot - name);
    return look_up(extensions, sizeof(extensions) / sizeof(extensions[0]), dot, len);
}

static bool is_text(const char *type)
{
    static const char charset[] = "; charset=utf-8"; /* as scripts/gen-types.py appends it */
    size_t n = strlen(type);

    return n >= sizeof(charset) &&
           memcmp(type + n - (sizeof(charset) - 1), charset, sizeof(charset) - 1) == 0;
}

bool type_compresses(const char *type)
{
    /* The table gives a charset to all that is text and to nothing else. */
    static const char *const others[] = {"application/wasm", "image/vnd.microsoft.icon",
        "image/bmp", "font/ttf", "font/otf", "model/gltf-binary", "application/pdf"};
    size_t n = strlen(type), i;

    if (is_text(type))
        return true;
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (n == strlen(others[i]) && memcmp(type, others[i], n) == 0)
            return true;
    }
    return false;
}
