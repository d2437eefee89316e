/* SPDX-License-Identifier: MIT */
/* types.c - content types: a binary search in a table made from Debian's media-types database.
 *
 * What counts is the part after the last dot of the last component, in any case of letters; a name
 * without a dot may be known as a whole (README, Makefile).  A leading dot does not begin an
 * extension: .png is a hidden file without one.  Cost: about eleven comparisons of a few bytes.
 */
#include <string.h>
#include "../core/byte.h"
#include "mime_types.h"
#include "types.h"

static const char unknown[] = "application/octet-stream";

static const char *look_up(const struct type_row *row, size_t rows, const char *name, size_t n)
{
    char lower[TYPE_NAME_MAX + 1];
    size_t low = 0;

    if (n == 0 || n > TYPE_NAME_MAX)
        return unknown;
    for (size_t i = 0; i < n; i++)
        lower[i] = (char)byte_lower(name[i]);
    lower[n] = '\0';
    if (strlen(lower) != n)
        return unknown;
    while (low < rows) {
        size_t middle = low + (rows - low) / 2;
        int order = strcmp(lower, row[middle].name);

        if (order == 0)
            return row[middle].type;
        if (order < 0)
            rows = middle;
        else
            low = middle + 1;
    }
    return unknown;
}

const char *type_of(const char *path, size_t n)
{
    const char *slash = memrchr(path, '/', n);
    const char *name = slash ? slash + 1 : path;
    size_t len = n - (size_t)(name - path);
    const char *dot = memrchr(name, '.', len);

    if (!dot)
        return look_up(whole_names, sizeof(whole_names) / sizeof(whole_names[0]), name, len);
    if (dot == name)
        return unknown;
    dot++;
    len -= (size_t)(dot - name);
    return look_up(extensions, sizeof(extensions) / sizeof(extensions[0]), dot, len);
}

bool type_compresses(const char *type)
{
    /* The table gives a charset to all that is text and to nothing else. */
    static const char *const others[] = {"application/wasm", "image/vnd.microsoft.icon",
        "image/bmp", "font/ttf", "font/otf", "model/gltf-binary", "application/pdf"};

    if (strstr(type, "; charset="))
        return true;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(type, others[i]) == 0)
            return true;
    }
    return false;
}
