/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* slice.c - looking at parts of a message: comparing, walking lists, finding fields.
 *
 * Nothing is copied and nothing is measured: a slice carries its length and points into the
 * caller's bytes.
 */
#include "byte.h"
#include "http.h"

/* Sixteen bytes in two rows; the bits are byte.h's, and bytes not listed have none. */
const uint8_t byte_class[256] = {
    ['\t'] = BYTE_VALUE,
    [0x80 ... 0xff] = BYTE_VALUE,
    [0x20] =
    0x02, 0x0f, 0x06, 0x03, 0x0f, 0x07, 0x0f, 0x0f,
    0x0e, 0x0e, 0x0f, 0x0f, 0x0e, 0x4f, 0x4f, 0x06, /* !"#$%&'()*+,-./ */
    [0x30] =
    0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f,
    0x7f, 0x7f, 0x06, 0x0e, 0x06, 0x0e, 0x06, 0x06, /* 0123456789:;<=>? */
    [0x40] =
    0x06, 0x5f, 0x5f, 0x5f, 0x5f, 0x5f, 0x5f, 0x4f,
    0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, /* @ABCDEFGHIJKLMNO */
    [0x50] =
    0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f,
    0x4f, 0x4f, 0x4f, 0x06, 0x06, 0x06, 0x07, 0x4f, /* PQRSTUVWXYZ[\]^_ */
    [0x60] =
    0x07, 0x5f, 0x5f, 0x5f, 0x5f, 0x5f, 0x5f, 0x4f,
    0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, /* `abcdefghijklmno */
    [0x70] =
    0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f, 0x4f,
    0x4f, 0x4f, 0x4f, 0x06, 0x07, 0x06, 0x4f, 0x00, /* pqrstuvwxyz{|}~ */
};

bool slice_is_nocase(struct slice s, const char *text)
{
    size_t i;

    if (s.len != strlen(text))
        return false;
    for (i = 0; i < s.len; i++)
        if (byte_lower(s.ptr[i]) != byte_lower(text[i]))
            return false;
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Bytes before the comma that ends the element, or all; a comma inside a quoted string does
 * not. */
static size_t element_len(struct slice s)
{
    bool quoted = false;
    size_t i;

    for (i = 0; i < s.len; i++) {
        if (s.ptr[i] == '"')
            quoted = !quoted;
        else if (s.ptr[i] == '\\' && quoted && i + 1 < s.len)
            i++; /* quoted-pair (RFC 9110 5.6.4) */
        else if (s.ptr[i] == ',' && !quoted)
            break;
    }
    return i;
}

bool http_list(struct slice *rest, struct slice *element)
{
    size_t n;

    while (rest->len > 0 && (is_space(*rest->ptr) || *rest->ptr == ',')) {
        rest->ptr++;
        rest->len--;
    }
    if (rest->len == 0)
        return false;
    n = element_len(*rest);
    element->ptr = rest->ptr;
    element->len = n;
    rest->ptr += n;
    rest->len -= n;
    while (is_space(element->ptr[element->len - 1])) /* the first byte is none */
        element->len--;
    return true;
}

struct slice http_next(const struct http_head *head, enum http_field_id id, unsigned *cursor)
{
    struct slice none = {NULL, 0};
    unsigned i = *cursor;

    if (i == 0) /* straight to the first one, or past the last where there is none */
        i = head->first[id] ? head->first[id] - 1u : head->fields;
    for (; i < head->fields; i++) {
        if (head->field[i].id == id) {
            *cursor = i + 1;
            return head->field[i].value;
        }
    }
    *cursor = i;
    return none;
}

struct slice http_field(const struct http_head *head, enum http_field_id id)
{
    struct slice none = {NULL, 0};

    return head->first[id] ? head->field[head->first[id] - 1].value : none;
}

struct slice slice_trimmed(struct slice s)
{
    while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}
