/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* target.c - the target of a request: its four forms, and the host it addresses (RFC
 * 9112 3.2).
 *
 *     origin     /path?query                every method except CONNECT
 *     absolute   http://host/path?query     the same, and the authority must be well formed
 *     authority  host:port                  CONNECT alone
 *     asterisk   *                          OPTIONS alone
 *
 * In the absolute form only http is accepted: an https resource must not be served without TLS (RFC
 * 9110 7.4), and other schemes are not ours.  Slices point into the target.
 */
#include "byte.h"
#include "http.h"

static struct slice slice_cut(struct slice s, size_t from, size_t to)
{
    struct slice cut = {s.ptr + from, to - from};

    return cut;
}

static size_t span(struct slice s, size_t from, unsigned class)
{
    size_t i = from;

    while (i < s.len && byte_is(s.ptr[i], class))
        i++;
    return i - from;
}

/* Four decimal numbers to 255, without leading zeros. */
static bool is_ipv4(struct slice s)
{
    unsigned part, value;
    size_t n, i = 0;

    for (part = 0; part < 4; part++) {
        if (part > 0 && (i == s.len || s.ptr[i++] != '.'))
            return false;
        n = span(s, i, BYTE_DIGIT);
        if (n == 0 || n > 3 || (n > 1 && s.ptr[i] == '0'))
            return false;
        for (value = 0; n > 0; n--)
            value = value * 10 + (unsigned)(s.ptr[i++] - '0');
        if (value > 255)
            return false;
    }
    return i == s.len;
}

/* Eight groups of hex digits, or fewer and one "::"; the last two may be an IPv4 address. */
static bool is_ipv6(struct slice s)
{
    bool gap = s.len >= 2 && s.ptr[0] == ':' && s.ptr[1] == ':';
    size_t n, i = gap ? 2 : 0;
    unsigned groups = 0;

    while (i < s.len) {
        n = span(s, i, BYTE_HEX);
        if (n == 0 || n > 4)
            return false;
        if (i + n < s.len && s.ptr[i + n] == '.') {
            if (!is_ipv4(slice_cut(s, i, s.len)))
                return false;
            groups += 2;
            break;
        }
        groups++;
        i += n;
        if (i == s.len)
            break;
        if (s.ptr[i++] != ':' || i == s.len)
            return false;
        if (s.ptr[i] == ':') {
            if (gap)
                return false;
            gap = true;
            i++;
        }
    }
    return gap ? groups <= 7 : groups == 8;
}

/* reg-name (RFC 3986 3.2.2), which an IPv4 address is too.  Its length, or s.len + 1 after a
 * broken escape. */
static size_t name_len(struct slice s)
{
    size_t i = 0;

    for (;;) {
        i += span(s, i, BYTE_HOST);
        if (i == s.len || s.ptr[i] != '%')
            return i;
        if (s.len - i < 3 || span(slice_cut(s, i + 1, i + 3), 0, BYTE_HEX) != 2)
            return s.len + 1;
        i += 3;
    }
}

/* Digits to 65535; no digits mean the scheme's own port, unless one is needed (RFC 3986 3.2.3). */
static bool is_port(struct slice s, bool needed)
{
    unsigned value = 0;
    size_t i;

    for (i = 0; i < s.len; i++) {
        if (!byte_is(s.ptr[i], BYTE_DIGIT))
            return false;
        value = value * 10 + (unsigned)(s.ptr[i] - '0');
        if (value > 65535)
            return false;
    }
    return s.len > 0 || !needed;
}

bool authority_is_valid(struct slice text, bool port_needed)
{
    size_t n;

    if (text.len > 0 && *text.ptr == '[') { /* no server is named by IPvFuture or a zone */
        for (n = 1; n < text.len && text.ptr[n] != ']'; n++)
            ;
        if (n == text.len || !is_ipv6(slice_cut(text, 1, n)))
            return false;
        n++;
    } else {
        n = name_len(text);
    }
    if (n == 0 || n > text.len)
        return false;
    if (n == text.len)
        return !port_needed;
    return text.ptr[n] == ':' && is_port(slice_cut(text, n + 1, text.len), port_needed);
}

size_t authority_name_len(struct slice authority)
{
    char end = authority.len && *authority.ptr == '[' ? ']' : ':';
    const char *at = authority.len ? memchr(authority.ptr, end, authority.len) : NULL;

    return at ? (size_t)(at - authority.ptr) + (end == ']') : authority.len;
}

/* Behind "http://": the authority's length, or 0: none, or a bad one. */
static size_t authority_len(struct slice s)
{
    size_t n = 0;

    while (n < s.len && s.ptr[n] != '/' && s.ptr[n] != '?')
        n++;
    return authority_is_valid(slice_cut(s, 0, n), false) ? n : 0;
}

bool target_read(struct http_head *head)
{
    struct slice rest = head->target;
    const char *mark;
    size_t n;

    if (slice_is(head->method_text, "CONNECT"))
        return authority_is_valid(rest, true);
    if (slice_is(rest, "*")) {
        head->path = rest;
        return head->method == HTTP_OPTIONS;
    }
    if (*rest.ptr != '/') {
        if (rest.len < 7 || !slice_is_nocase(slice_cut(rest, 0, 7), "http://"))
            return false;
        rest = slice_cut(rest, 7, rest.len);
        n = authority_len(rest);
        if (n == 0)
            return false;
        rest = slice_cut(rest, n, rest.len);
    }
    head->path = rest;
    mark = rest.len > 0 ? memchr(rest.ptr, '?', rest.len) : NULL;
    if (mark) {
        n = (size_t)(mark - rest.ptr);
        head->path = slice_cut(rest, 0, n);
        head->query = slice_cut(rest, n + 1, rest.len);
    }
    if (head->path.len == 0) { /* RFC 9110 4.2.3: http://host and http://host/ are the same */
        head->path.ptr = "/";
        head->path.len = 1;
    }
    return true;
}
