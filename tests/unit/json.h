/* SPDX-License-Identifier: MIT */
/* json.h - is this strictly JSON (RFC 8259), in UTF-8?  An independent checker for our own
 * output. */
#ifndef TESTS_UNIT_JSON_H
#define TESTS_UNIT_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct json {
    const char *at, *end;
};

static inline bool json_value(struct json *j, unsigned depth);

static inline bool json_is(const struct json *j, const char *set)
{
    return j->at < j->end && *j->at && strchr(set, *j->at);
}

static inline bool json_take(struct json *j, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(j->end - j->at) < n || memcmp(j->at, word, n) != 0)
        return false;
    j->at += n;
    return true;
}

static inline void json_space(struct json *j)
{
    while (json_is(j, " \t\r\n"))
        j->at++;
}

/* RFC 3629's table, written out by hand: no code is shared with the tested code. */
static inline bool json_utf8(struct json *j)
{
    const unsigned char *p = (const unsigned char *)j->at;
    size_t left = (size_t)(j->end - j->at), n;
    unsigned long c;

    if (p[0] < 0x80)
        n = 1, c = p[0];
    else if (p[0] >> 5 == 6)
        n = 2, c = p[0] & 0x1F;
    else if (p[0] >> 4 == 14)
        n = 3, c = p[0] & 0x0F;
    else if (p[0] >> 3 == 30)
        n = 4, c = p[0] & 0x07;
    else
        return false;
    if (left < n)
        return false;
    for (size_t i = 1; i < n; i++) {
        if (p[i] >> 6 != 2)
            return false;
        c = c << 6 | (p[i] & 0x3F);
    }
    j->at += n;
    if ((n == 2 && c < 0x80) || (n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10FFFF)))
        return false;
    return c < 0xD800 || c > 0xDFFF;
}

static inline bool json_string(struct json *j)
{
    if (!json_take(j, "\""))
        return false;
    while (j->at < j->end && *j->at != '"') {
        if ((unsigned char)*j->at < 0x20)
            return false;
        if (*j->at != '\\') {
            if (!json_utf8(j))
                return false;
            continue;
        }
        j->at++;
        if (json_is(j, "\"\\/bfnrt")) {
            j->at++;
        } else if (json_take(j, "u")) {
            for (int i = 0; i < 4; i++, j->at++) {
                if (!json_is(j, "0123456789abcdefABCDEF"))
                    return false;
            }
        } else {
            return false;
        }
    }
    return json_take(j, "\"");
}

static inline bool json_number(struct json *j)
{
    json_take(j, "-");
    if (!json_take(j, "0")) {
        if (!json_is(j, "123456789"))
            return false;
        while (json_is(j, "0123456789"))
            j->at++;
    }
    return !json_is(j, ".eE0123456789"); /* our numbers are integers */
}

/* The members between brackets; in objects with a name and a colon before each. */
static inline bool json_members(struct json *j, char close, unsigned depth)
{
    const char ends[2] = {close, '\0'};

    j->at++;
    json_space(j);
    if (json_take(j, ends))
        return true;
    for (;;) {
        json_space(j);
        if (close == '}' && !json_string(j))
            return false;
        json_space(j);
        if (close == '}' && !json_take(j, ":"))
            return false;
        if (!json_value(j, depth + 1))
            return false;
        if (json_take(j, ends))
            return true;
        if (!json_take(j, ","))
            return false;
    }
}

static inline bool json_value(struct json *j, unsigned depth)
{
    bool valid;

    json_space(j);
    if (depth > 16 || j->at == j->end)
        return false;
    if (*j->at == '{')
        valid = json_members(j, '}', depth);
    else if (*j->at == '[')
        valid = json_members(j, ']', depth);
    else if (*j->at == '"')
        valid = json_string(j);
    else if (json_is(j, "-0123456789"))
        valid = json_number(j);
    else
        valid = json_take(j, "true") || json_take(j, "false") || json_take(j, "null");
    json_space(j);
    return valid;
}

static inline bool json_is_valid(const char *text, size_t n)
{
    struct json j = {text, text + n};

    return json_value(&j, 0) && j.at == j.end;
}

#endif
