/* SPDX-License-Identifier: MIT */
/* naive.c - the naive parser of naive.h: finds the empty line, cuts the head into strings, and
 * asks the C library about each. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "../../core/limits.h"
#include "naive.h"

#define ALPHA "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"
#define HEXDIG DIGIT "abcdefABCDEF"
#define TCHAR "!#$%&'*+-.^_`|~" DIGIT ALPHA
#define REG_NAME "-._~!$&'()*+,;=" DIGIT ALPHA

/* Counts from the fields so far. */
struct seen {
    unsigned hosts, lengths, codings;
};

static bool all_of(const char *text, const char *set)
{
    return text[strspn(text, set)] == '\0';
}

static bool is_port(const char *text)
{
    char *end;

    return all_of(text, DIGIT) && (*text == '\0' || strtod(text, &end) <= 65535);
}

static bool is_reg_name(const char *text)
{
    for (; *text; text++) {
        if (*text == '%') {
            if (!text[1] || !strchr(HEXDIG, text[1]) || !text[2] || !strchr(HEXDIG, text[2]))
                return false;
            text += 2;
        } else if (!strchr(REG_NAME, *text)) {
            return false;
        }
    }
    return true;
}

/* uri-host [ ":" port ] */
static bool is_authority(const char *text, bool port_needed)
{
    char host[HEAD_BYTES_MAX + 1];
    struct in6_addr address;
    const char *port;
    size_t n;

    if (*text == '[') {
        n = strcspn(text, "]");
        if (text[n] != ']')
            return false;
        snprintf(host, sizeof(host), "%.*s", (int)n - 1, text + 1);
        if (inet_pton(AF_INET6, host, &address) != 1)
            return false;
        port = text + n + 1;
        if (*port != '\0' && *port != ':')
            return false;
    } else {
        n = strcspn(text, ":");
        snprintf(host, sizeof(host), "%.*s", (int)n, text);
        if (n == 0 || !is_reg_name(host))
            return false;
        port = text + n;
    }
    if (*port == '\0')
        return !port_needed;
    return is_port(port + 1) && (port[1] != '\0' || !port_needed);
}

static bool is_target(const char *method, const char *target, struct naive *head)
{
    char host[HEAD_BYTES_MAX + 1];
    const char *path = target;

    head->path_len = strcspn(path, "?");
    head->query = path[head->path_len] == '?';
    if (strcmp(method, "CONNECT") == 0)
        return is_authority(target, true);
    if (strcmp(target, "*") == 0)
        return strcmp(method, "OPTIONS") == 0;
    if (*target == '/')
        return true;
    if (strncasecmp(target, "http://", 7) != 0)
        return false;
    path = target + 7 + strcspn(target + 7, "/?");
    head->path_len = strcspn(path, "?");
    head->query = path[head->path_len] == '?';
    snprintf(host, sizeof(host), "%.*s", (int)(path - target - 7), target + 7);
    return is_authority(host, false);
}

/* method SP request-target SP HTTP-version */
static bool read_request_line(const char *line, size_t at, struct naive *head)
{
    char method[HEAD_BYTES_MAX + 1], target[HEAD_BYTES_MAX + 1];
    const char *space = strchr(line, ' '), *last = strrchr(line, ' ');

    if (!space || space == last)
        return false;
    snprintf(method, sizeof(method), "%.*s", (int)(space - line), line);
    snprintf(target, sizeof(target), "%.*s", (int)(last - space - 1), space + 1);
    if (*method == '\0' || strlen(method) > METHOD_BYTES_MAX || !all_of(method, TCHAR))
        return false;
    head->target_at = at + strlen(method) + 1;
    head->target_len = strlen(target);
    if (*target == '\0' || strlen(target) > TARGET_BYTES_MAX || strpbrk(target, " #"))
        return false;
    for (const char *p = target; *p; p++)
        if (*p < 0x21 || *p > 0x7e)
            return false;
    if (strlen(last) != 9 || memcmp(last, " HTTP/1.", 8) != 0 || !strchr(DIGIT, last[8]))
        return false;
    head->minor = last[8] != '0';
    return is_target(method, target, head);
}

/* The members of a comma list, trimmed; a comma between quotes does not count.  *rest moves on. */
static bool next_member(char **rest, char **member)
{
    char *end = *rest;
    bool quoted = false;

    while (*end == ' ' || *end == '\t' || *end == ',')
        end++;
    if (*end == '\0')
        return false;
    *member = end;
    for (; *end && (quoted || *end != ','); end++) {
        if (*end == '"')
            quoted = !quoted;
        else if (quoted && *end == '\\' && end[1])
            end++;
    }
    *rest = *end ? end + 1 : end;
    *end = '\0';
    while (end > *member && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    return true;
}

static bool read_length(const char *value, struct naive *head)
{
    char canonical[32];

    if (*value == '\0' || !all_of(value, DIGIT))
        return false;
    while (*value == '0' && value[1])
        value++;
    if (strlen(value) > 19 || (strlen(value) == 19 && strcmp(value, "9223372036854775807") > 0))
        return false;
    head->content_length = strtoull(value, NULL, 10);
    snprintf(canonical, sizeof(canonical), "%llu", (unsigned long long)head->content_length);
    return strcmp(value, canonical) == 0;
}

static bool read_known(const char *name, char *value, struct naive *head, struct seen *seen)
{
    char *member;

    if (strcasecmp(name, "Host") == 0)
        return ++seen->hosts == 1 && (*value == '\0' || is_authority(value, false));
    if (strcasecmp(name, "Content-Length") == 0) {
        head->framing = NAIVE_LENGTH;
        return ++seen->lengths == 1 && seen->codings == 0 && read_length(value, head);
    }
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        head->framing = NAIVE_CHUNKED;
        return ++seen->codings == 1 && seen->lengths == 0 && head->minor == 1 &&
               strcasecmp(value, "chunked") == 0;
    }
    if (strcasecmp(name, "Expect") == 0 && head->minor == 1) {
        while (next_member(&value, &member)) {
            if (strcasecmp(member, "100-continue") != 0)
                return false;
            head->expects = true;
        }
    }
    return true;
}

static void read_connection(char *value, bool *close, bool *keep)
{
    char *member;

    while (next_member(&value, &member)) {
        *close = *close || strcasecmp(member, "close") == 0;
        *keep = *keep || strcasecmp(member, "keep-alive") == 0;
    }
}

/* token ":" OWS field-value OWS */
static bool read_field(char *line, char **value)
{
    char *colon = strchr(line, ':'), *end;

    if (!colon || colon == line)
        return false;
    *colon = '\0';
    if (!all_of(line, TCHAR))
        return false;
    *value = colon + 1 + strspn(colon + 1, " \t");
    for (end = *value + strlen(*value); end > *value && strchr(" \t", end[-1]); end--)
        end[-1] = '\0';
    for (const char *p = *value; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

/* Read a complete head, as one string, without its empty line.  lead: bytes of the head before this
 * string. */
static bool read_head(char *text, size_t lead, struct naive *head)
{
    struct seen seen = {0, 0, 0};
    bool close = false, keep = false;
    char *line = text, *next, *value;

    for (; *line; line = next) {
        next = strstr(line, "\r\n");
        *next = '\0';
        next += 2;
        if (strpbrk(line, "\r\n"))
            return false;
        if (line == text) {
            if (!read_request_line(line, lead, head))
                return false;
            continue;
        }
        if (++head->fields > HEAD_FIELDS_MAX || !read_field(line, &value))
            return false;
        if (strcasecmp(line, "Connection") == 0)
            read_connection(value, &close, &keep);
        else if (!read_known(line, value, head, &seen))
            return false;
    }
    head->keep_alive = !close && (keep || head->minor == 1);
    return line != text && (seen.hosts == 1 || head->minor == 0);
}

void naive_parse(const char *bytes, size_t n, struct naive *head)
{
    size_t lead = n >= 2 && memcmp(bytes, "\r\n", 2) == 0 ? 2 : 0, len;
    const char *end = memmem(bytes + lead, n - lead, "\r\n\r\n", 4);
    char *text;

    memset(head, 0, sizeof(*head));
    if (n - lead >= 2 && memcmp(bytes + lead, "\r\n", 2) == 0) {
        head->length = -1; /* a second empty line */
        return;
    }
    len = end ? (size_t)(end - bytes) + 4 : n;
    if (!end || len > HEAD_BYTES_MAX) {
        head->length = n >= HEAD_BYTES_MAX ? -1 : 0;
        return;
    }
    text = strndup(bytes + lead, len - lead - 2);
    if (strlen(text) == len - lead - 2 && read_head(text, lead, head)) /* no NUL in it */
        head->length = (long)len;
    else
        head->length = -1;
    free(text);
}
