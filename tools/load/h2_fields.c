/* SPDX-License-Identifier: MIT */
/* h2_fields.c - a request's text becomes the fields of HTTP/2, and an answer's fields become text.
 *
 * Every answer is read by the same grammar, and judged by the same rules, whichever version of HTTP
 * brought it.
 */
#include <strings.h>
#include "h2_fields.h"
#include "load.h"

size_t h2_fields_split(struct slice text, bool secure, struct h2_field field[H2_FIELDS_MAX])
{
    struct slice line = take_line(&text), method = {line.ptr, 0}, path, https = {"https", 5};
    const char *space = memchr(line.ptr, ' ', line.len), *end = memrchr(line.ptr, ' ', line.len);
    size_t n = 4;

    method.len = (size_t)(space - line.ptr);
    path = (struct slice){space + 1, (size_t)(end - space - 1)};
    field[0] = (struct h2_field){{":method", 7}, method};
    field[1] = (struct h2_field){{":scheme", 7}, {https.ptr, secure ? 5 : 4}};
    field[2] = (struct h2_field){{":authority", 10}, {"", 0}};
    field[3] = (struct h2_field){{":path", 5}, path};
    while ((line = take_line(&text)).len && n < H2_FIELDS_MAX) {
        const char *colon = memchr(line.ptr, ':', line.len);
        struct slice name = {line.ptr, (size_t)(colon - line.ptr)};
        struct slice value = slice_trimmed((struct slice){colon + 1, line.len - name.len - 1});

        if (slice_is_nocase(name, "Host"))
            field[2].value = value;
        else if (!slice_is_nocase(name, "Connection")) /* a matter of HTTP/1.1 */
            field[n++] = (struct h2_field){name, value};
    }
    return n;
}

bool h2_fields_join(struct bytes *text, struct h2_field field)
{
    if (slice_is(field.name, ":status"))
        return bytes_add(text, "HTTP/1.1 ", 9) &&
               bytes_add(text, field.value.ptr, field.value.len) && bytes_add(text, " \r\n", 3);
    return bytes_left(text) + field.name.len + field.value.len <= H2_TEXT_BYTES_MAX &&
           bytes_add(text, field.name.ptr, field.name.len) && bytes_add(text, ": ", 2) &&
           bytes_add(text, field.value.ptr, field.value.len) && bytes_add(text, "\r\n", 2);
}

bool h2_fields_forbid(const char *header)
{
    static const char *const names[] = {"Upgrade", "Keep-Alive", "Proxy-Connection", "TE"};
    size_t n = strcspn(header, ":");

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == n && strncasecmp(header, names[i], n) == 0)
            return true;
    return header[0] == ':';
}
