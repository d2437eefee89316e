/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_answer.c - what every answer has in common: the status line, the first fields, the end of
 * the head, and what is queued behind it.
 */
#include "http_inside.h"

struct status {
    uint16_t code;
    uint8_t line_len;
    const char *line, *meaning;
};

static const struct status statuses[] = {
#define LINE(code, reason) "HTTP/1.1 " #code " " reason "\r\n"
#define X(code, reason, meaning) \
    {code, sizeof(LINE(code, reason)) - 1, LINE(code, reason), meaning},
#include "status.def"
#undef X
#undef LINE
};

static const struct status *status_of(unsigned code)
{
    unsigned i, last = sizeof(statuses) / sizeof(statuses[0]) - 1;

    for (i = 0; i < last && statuses[i].code != code; i++)
        continue;
    core_assert(statuses[i].code == code); /* status.def has a row for each status that is sent */
    return &statuses[i];
}

const char *http_status_meaning(unsigned status)
{
    return status_of(status)->meaning;
}

static const char *server_name(const struct http_host *host)
{
    return host->server ? host->server : "rung";
}

#define SERVER "Server: "
#define MORE "\r\nX-Content-Type-Options: nosniff\r\nDate: "

static void put_common(struct text *t, unsigned status, const struct http_host *host)
{
    const struct status *s = status_of(status);

    text_put(t, s->line, s->line_len);
    TEXT_LITERAL(t, SERVER);
    text_string(t, server_name(host));
    TEXT_LITERAL(t, MORE);
    text_put(t, host->date, HTTP_DATE_BYTES);
    TEXT_LITERAL(t, "\r\n");
}

void answer_open(struct answer *a, unsigned status)
{
    size_t cap;

    a->status = status;
    a->text.at = conn_space(a->c, &cap);
    core_assert(cap >= REPLY_HEAD_BYTES_MAX);
    a->text.end = a->text.at + REPLY_HEAD_BYTES_MAX; /* not cap: answers depend on requests alone */
    put_common(&a->text, status, http_host_of(a->c));
}

/* RFC 9112 9.3: persistence is the default of 1.1 and has to be said in 1.0. */
void answer_close(struct answer *a)
{
    const struct http_host *host = http_host_of(a->c);
    size_t cap;
    char *start = conn_space(a->c, &cap);

    if (host->fields) {
        core_assert(a->text.end - a->text.at >= HOST_FIELDS_BYTES_MAX);
        a->text.at += host->fields(host->conn.ctx, a->c, a->status, a->text.at);
    }
    if (!a->keep_alive)
        TEXT_LITERAL(&a->text, "Connection: close\r\n\r\n");
    else if (a->head->minor == 0)
        TEXT_LITERAL(&a->text, "Connection: keep-alive\r\n\r\n");
    else
        TEXT_LITERAL(&a->text, "\r\n");
    conn_wrote(a->c, (size_t)(a->text.at - start), false);
}

void *answer_note(const struct answer *a, uint64_t body_bytes)
{
    struct http_receipt receipt = {
        .head = a->head, .status = a->status, .body_bytes = body_bytes};

    return http_host_of(a->c)->answer(a->c->host->ctx, a->c, &receipt);
}

void answer_end(struct answer *a, void *note)
{
    conn_put_end(a->c, note);
    if (!a->keep_alive)
        conn_close_after(a->c);
}

/* The body is a piece of a source, which is given away; HEAD and an empty piece send nothing. */
void answer_send(struct answer *a, struct source *source, struct http_range piece)
{
    const struct http_host *host = http_host_of(a->c);
    bool sends = a->head->method != HTTP_HEAD && piece.len > 0;
    void *note = answer_note(a, sends ? piece.len : 0);

    if (sends)
        conn_put_source(a->c, source, piece.off, piece.len);
    else
        host->conn.release(host->conn.ctx, source);
    answer_end(a, note);
}

void http_put_length(struct text *t, uint64_t bytes)
{
    TEXT_LITERAL(t, "Content-Length: ");
    text_number(t, bytes);
    TEXT_LITERAL(t, "\r\n");
}

void http_put_coding(struct text *t, enum coding coding)
{
    static const char name[CODINGS][5] = {"", "gzip", "zstd", "br"};

    if (coding == CODING_IDENTITY)
        return;
    TEXT_LITERAL(t, "Content-Encoding: ");
    text_string(t, name[coding]);
    TEXT_LITERAL(t, "\r\n");
}

/* --- An answer that is written whole ---------------------------------------------------------- */

size_t http_whole_bytes(const struct http_host *host, const struct source *source)
{
    if (!source->fields || !source->bytes || !source->size)
        return 0;
    return status_of(200)->line_len + sizeof(SERVER MORE) - 1 + strlen(server_name(host)) +
           HTTP_DATE_BYTES + 2 + source->fields_len + 2 + (size_t)source->size;
}

bool http_whole_write(struct whole *whole, char *out, const struct http_host *host,
                      const struct source *source)
{
    size_t bytes = http_whole_bytes(host, source), head = bytes - (size_t)source->size;
    struct text t = {out, out + bytes};

    if (!bytes || bytes > whole->len)
        return false;
    put_common(&t, 200, host);
    text_put(&t, source->fields, source->fields_len);
    TEXT_LITERAL(&t, "\r\n");
    core_assert(t.at == out + head);
    text_put(&t, source->bytes, (size_t)source->size);
    *whole = (struct whole){host->date_s, out, (uint32_t)(t.at - out), (uint32_t)head};
    return true;
}
