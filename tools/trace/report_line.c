/* SPDX-License-Identifier: MIT */
/* report_line.c - a request in one line, and the parts of that line. */
#include <arpa/inet.h>
#include "../../base/escape.h"
#include "trace.h"

enum { SAFE_TEXT = 4 * TARGET_TEXT + 8, IPV4_AT = 12 };

static bool is_ipv4(const struct request *r)
{
    static const uint8_t mapped[IPV4_AT] = {[10] = 0xff, [11] = 0xff};

    return memcmp(r->peer, mapped, IPV4_AT) == 0;
}

void report_address(const struct request *r, char text[PEER_TEXT])
{
    bool ipv4 = is_ipv4(r);

    inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? r->peer + IPV4_AT : r->peer, text, PEER_TEXT);
}

void report_peer(const struct request *r, char text[PEER_TEXT])
{
    char address[PEER_TEXT];

    report_address(r, address);
    snprintf(text, PEER_TEXT, is_ipv4(r) ? "%.45s:%u" : "[%.45s]:%u", address, r->peer_port);
}

const char *report_ending(enum ending ending)
{
    static const char *const name[] = {"answered", "cut", "open", "merged"};

    return name[ending];
}

static void put_stages(const struct stages *s)
{
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++) {
        if (s->state[i] == STAGE_NONE)
            continue;
        printf(" %s ", stage_name((enum stage)i));
        if (s->state[i] == STAGE_KNOWN)
            printf("%.1f", (double)s->took_ns[i] / 1e3);
        else
            printf("%s", s->state[i] == STAGE_BUSY ? "busy" : "-");
    }
}

void report_begin(const struct request *r, const struct stages *s)
{
    char target[SAFE_TEXT], method[4 * METHOD_TEXT + 8];

    escape_quoted(target, sizeof(target), (struct slice){r->target, strlen(r->target)});
    escape_quoted(method, sizeof(method), (struct slice){r->method, strlen(r->method)});
    printf("%llx/%u ", (unsigned long long)r->cookie, r->ordinal);
    if (r->status)
        printf("%u", r->status);
    else
        printf("---");
    printf(" %s %s ", method, target);
    if (s->server_known)
        printf("%.1f us", (double)s->server_ns / 1e3);
    else
        printf("- us");
}

void report_end(const struct request *r)
{
    if (r->ending != ENDED_ANSWERED)
        printf(" (%s)", report_ending((enum ending)r->ending));
    printf("\n");
}

void report_line(const struct request *r, const struct stages *s)
{
    report_begin(r, s);
    printf(":");
    put_stages(s);
    report_end(r);
}
