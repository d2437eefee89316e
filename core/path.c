/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* path.c - from a URL's path to the path of a file, and back.
 *
 * A path is decoded once, a byte at a time, into its components.  A component is checked when it is
 * whole and decoded, so "%2e%2E" is "..", and never again, so "%252e" is the name "%2e".  No path
 * climbs above the root.  This is the first of two checks; the kernel makes the second
 * (RESOLVE_BENEATH).
 */
#include "byte.h"
#include "http.h"

/* Where the next byte goes: out[0..len) is normal, ends its last whole component with '/', and the
 * bytes from start on are the component being read. */
struct walk {
    char *out;
    size_t start, len;
};

/* Ends a component at '/' or at the end of the path: "." and an empty one are dropped, ".." removes
 * the one before. */
static int end_component(struct walk *w)
{
    const char *name = w->out + w->start;
    size_t n = w->len - w->start;

    if (n == 1 && name[0] == '.') {
        w->len = w->start;
    } else if (n == 2 && name[0] == '.' && name[1] == '.') {
        if (w->start == 1)
            return -404;
        w->start--;
        while (w->out[w->start - 1] != '/')
            w->start--;
        w->len = w->start;
    }
    return 0;
}

/* Names are bytes: %ff is a legal one, and so is a lone %c0.  But "%c0%af", a slash in more
 * bytes than it needs, is only ever sent to fool a reader that decodes twice (RFC 3629 3). */
static bool is_overlong(unsigned char lead, unsigned char c)
{
    if (lead == 0xc0 || lead == 0xc1)
        return c >= 0x80 && c <= 0xbf;
    return (lead == 0xe0 && c >= 0x80 && c <= 0x9f) || (lead == 0xf0 && c >= 0x80 && c <= 0x8f);
}

static int add_byte(struct walk *w, char c)
{
    if (is_overlong((unsigned char)w->out[w->len - 1], (unsigned char)c))
        return -400;
    if (w->len == PATH_BYTES_MAX - 1)
        return -404;
    w->out[w->len++] = c;
    return 0;
}

static int add_slash(struct walk *w)
{
    int r = end_component(w);

    if (r < 0 || w->len == w->start)
        return r;
    r = add_byte(w, '/');
    w->start = w->len;
    return r;
}

/* Exactly two digits; never NUL or a slash: neither can be in a name, so no file is meant. */
static int read_escape(struct slice raw, size_t at, char *c)
{
    if (raw.len - at < 3 || !byte_is(raw.ptr[at + 1], BYTE_HEX) ||
        !byte_is(raw.ptr[at + 2], BYTE_HEX))
        return -400;
    *c = (char)(byte_hex(raw.ptr[at + 1]) << 4 | byte_hex(raw.ptr[at + 2]));
    return *c == '/' ? -400 : 0;
}

long path_decode(struct slice raw, char out[PATH_BYTES_MAX])
{
    struct walk w = {out, 1, 1};
    size_t i;
    int r = 0;
    char c;

    if (raw.len == 0 || raw.ptr[0] != '/')
        return -400;
    out[0] = '/';
    for (i = 1; i < raw.len && r == 0; i++) {
        c = raw.ptr[i];
        if (byte_is(c, BYTE_UNRESERVED) && w.len < PATH_BYTES_MAX - 1) { /* nearly always */
            out[w.len++] = c;
            continue;
        }
        if (c == '/') {
            r = add_slash(&w);
            continue;
        }
        if (c == '%') {
            r = read_escape(raw, i, &c);
            i += 2;
        }
        if (r == 0)
            r = c == '\0' ? -400 : add_byte(&w, c);
    }
    if (r == 0)
        r = end_component(&w);
    return r < 0 ? r : (long)w.len;
}

size_t path_encode(char *out, const char *path, size_t n)
{
    static const char hex[] = "0123456789ABCDEF"; /* RFC 3986 2.1: upper case */
    char *p = out;
    size_t i;

    for (i = 0; i < n; i++) {
        if (byte_is(path[i], BYTE_UNRESERVED) || path[i] == '/') {
            *p++ = path[i];
        } else {
            *p++ = '%';
            *p++ = hex[(unsigned char)path[i] >> 4];
            *p++ = hex[(unsigned char)path[i] & 15];
        }
    }
    return (size_t)(p - out);
}

static size_t encoded_len(struct slice s)
{
    size_t n = 0, i;

    for (i = 0; i < s.len; i++)
        n += byte_is(s.ptr[i], BYTE_UNRESERVED) || s.ptr[i] == '/' ? 1 : 3;
    return n;
}

bool path_links(struct slice folder, struct slice name, bool slash)
{
    size_t len = folder.len + name.len + slash, i;

    for (i = 1; i < name.len; i++) {
        unsigned char lead = (unsigned char)name.ptr[i - 1];

        if (lead >= 0xc0 && is_overlong(lead, (unsigned char)name.ptr[i]))
            return false;
    }
    if (len > PATH_BYTES_MAX - 1)
        return false;
    return 3 * len <= TARGET_BYTES_MAX || /* nearly always */
        encoded_len(folder) + encoded_len(name) + slash <= TARGET_BYTES_MAX;
}

bool name_is_hidden(struct slice name)
{
    /* RFC 8615: names below /.well-known are there to be found. */
    return name.len && name.ptr[0] == '.' && !slice_is(name, ".well-known");
}

bool path_is_hidden(struct slice path)
{
    size_t start = 0, i;

    if (!memchr(path.ptr, '.', path.len))
        return false;
    for (i = 0; i <= path.len; i++) {
        if (i < path.len && path.ptr[i] != '/')
            continue;
        if (name_is_hidden((struct slice){path.ptr + start, i - start}))
            return true;
        start = i + 1;
    }
    return false;
}
