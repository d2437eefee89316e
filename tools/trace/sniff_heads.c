/* SPDX-License-Identifier: MIT */
/* sniff_heads.c - the bytes of a direction become first lines of messages: a head is read to its
 * end and its body skipped, so that bytes inside of a body are not taken for a head.
 *
 * The beginning of each message is known if the beginning of the connection was seen.  Otherwise,
 * or where bytes were not seen, a packet that begins like a head is taken for one.  A line counts
 * as a first line if it has the form of a request's or a response's; the rest of the head, valid or
 * not, decides only whether the end of the message is known.
 */
#include <stdlib.h>
#include "sniff_lines.h"

enum { INQ_FIRST = 256, METHOD_LEAST = 3 };

void heads_forget(struct lines *l, struct stream *s)
{
    free(s->partial);
    l->bytes -= s->room;
    s->partial = NULL;
    s->partial_len = s->room = 0;
    s->line_said = s->guessed = false;
}

static void lose(struct lines *l, struct stream *s)
{
    heads_forget(l, s);
    s->state = STREAM_LOST;
}

static void advance(struct stream *s, struct piece *p, uint32_t n)
{
    uint32_t readable = n < p->kept ? n : p->kept;

    s->next += n;
    p->ptr += readable;
    p->kept -= readable;
    p->len -= n;
}

/* --- What a first line looks like ------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_token(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || is_digit(c) ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_version(const char *p) /* eight bytes */
{
    return memcmp(p, "HTTP/", 5) == 0 && is_digit(p[5]) && p[6] == '.' && is_digit(p[7]);
}

static bool is_response(struct slice s)
{
    return s.len >= 12 && is_version(s.ptr) && s.ptr[8] == ' ' && is_digit(s.ptr[9]) &&
           is_digit(s.ptr[10]) && is_digit(s.ptr[11]) && (s.len == 12 || s.ptr[12] == ' ');
}

static size_t method_bytes(struct slice s)
{
    size_t n = 0;

    while (n < s.len && n <= METHOD_BYTES_MAX && is_token(s.ptr[n]))
        n++;
    return n;
}

static bool is_request(struct slice s)
{
    size_t n = method_bytes(s);

    return n > 0 && n <= METHOD_BYTES_MAX && s.len >= n + 11 && s.ptr[n] == ' ' &&
           s.ptr[s.len - 9] == ' ' && is_version(s.ptr + s.len - 8);
}

/* Whether bytes may be the beginning of a first line.  A guess must also have a method in capitals,
 * as all registered ones are. */
static bool may_begin(struct slice s, bool guess)
{
    static const char response[] = "HTTP/";
    size_t n = s.len < 5 ? s.len : 5, method = method_bytes(s);

    if (memcmp(s.ptr, response, n) == 0)
        return true;
    if (method > METHOD_BYTES_MAX || (method < s.len && s.ptr[method] != ' '))
        return false;
    for (size_t i = 0; guess && i < method; i++)
        if ((s.ptr[i] < 'A' || s.ptr[i] > 'Z') && s.ptr[i] != '-')
            return false;
    return method >= (guess && method < s.len ? METHOD_LEAST : 1);
}

/* --- Heads ------------------------------------------------------------------------------------ */

/* Makes room for that many bytes of a head. */
static bool reserve(struct lines *l, struct stream *s, uint32_t bytes)
{
    uint32_t room = s->room ? s->room : INQ_FIRST;
    char *more;

    while (room < bytes)
        room *= 2;
    if (room == s->room)
        return true;
    more = l->bytes + room - s->room > LINES_BYTES_MAX ? NULL : realloc(s->partial, room);
    if (!more)
        return false;
    l->bytes += room - s->room;
    s->partial = more;
    s->room = room;
    return true;
}

/* The bytes of a head so far: those of the piece, or of earlier ones and this.  False: there is no
 * room. */
static bool gather(struct lines *l, struct stream *s, const struct piece *p, struct slice *bytes)
{
    *bytes = (struct slice){p->ptr, p->kept};
    if (!s->partial_len)
        return true;
    if (!reserve(l, s, s->partial_len + p->kept))
        return false;
    memcpy(s->partial + s->partial_len, p->ptr, p->kept);
    *bytes = (struct slice){s->partial, s->partial_len + p->kept};
    return true;
}

/* Keeps the part of a head that has come, gathered before.  False: there is no room. */
static bool keep(struct lines *l, struct stream *s, struct piece *p)
{
    if (!s->partial_len && !reserve(l, s, p->kept))
        return false;
    memcpy(s->partial + s->partial_len, p->ptr, p->kept);
    s->partial_len += p->kept;
    advance(s, p, p->kept);
    return true;
}

/* Reports the first line, once it is in the bytes of a head so far.  False: it is not HTTP. */
static bool say_line(struct lines *l, struct talk *t, unsigned side, struct piece whole)
{
    struct stream *s = &t->stream[side];
    struct slice text = {whole.ptr, whole.kept};
    const char *end;

    while (text.len && (*text.ptr == '\r' || *text.ptr == '\n')) { /* RFC 9112 2.2 */
        text.ptr++;
        text.len--;
    }
    if (text.len && !may_begin(text, s->guessed))
        return false;
    end = text.len ? memchr(text.ptr, '\n', text.len) : NULL;
    if (!end)
        return true;
    text.len = (size_t)(end - text.ptr);
    if (text.len && text.ptr[text.len - 1] == '\r')
        text.len--;
    if (!is_response(text) && !is_request(text))
        return false;
    s->line_said = true;
    l->counts.lines++;
    l->tell(l->arg, &(struct line){whole.ns, &t->end[side], &t->end[!side], text});
    return true;
}

static bool is_answer(struct slice bytes)
{
    while (bytes.len && (*bytes.ptr == '\r' || *bytes.ptr == '\n')) {
        bytes.ptr++;
        bytes.len--;
    }
    return bytes.len >= 5 && memcmp(bytes.ptr, "HTTP/", 5) == 0;
}

static void set_body(struct stream *s, const struct http_head *head)
{
    s->state = STREAM_BODY;
    s->framing = (uint8_t)head->framing;
    s->left = head->framing == FRAMING_LENGTH ? head->content_length : 0;
    http_body_init(&s->body, head->framing, head->content_length);
}

static void ask(struct talk *t, const struct http_head *head)
{
    enum asked kind = slice_is(head->method_text, "HEAD") ? ASKED_HEAD : ASKED_OTHER;

    if (slice_is(head->method_text, "CONNECT"))
        kind = ASKED_CONNECT;
    if (t->asks - t->answers == ASKED_MAX) /* the answers go another way */
        t->answers++;
    t->asked[t->asks++ % ASKED_MAX] = (uint8_t)kind;
}

/* Parses a head whose first line was reported: its length, 0: it is not complete, < 0: it is
 * refused. */
static long parse(struct talk *t, struct stream *s, struct slice bytes)
{
    struct http_head head;
    enum asked asked;
    bool answer = is_answer(bytes);
    long len;

    if (!answer) {
        len = http_parse_request(bytes.ptr, bytes.len, &head);
        if (len > 0) {
            set_body(s, &head);
            ask(t, &head);
        }
        return len;
    }
    asked = t->asks == t->answers ? ASKED_OTHER : t->asked[t->answers % ASKED_MAX];
    len = http_parse_response(bytes.ptr, bytes.len, asked == ASKED_HEAD ? HTTP_HEAD : HTTP_GET,
                              &head);
    if (len <= 0)
        return len;
    set_body(s, &head);
    if (head.status == 101 || (asked == ASKED_CONNECT && head.status / 100 == 2))
        t->stream[0].state = t->stream[1].state = STREAM_TUNNEL;
    else if (head.status < 200)
        s->state = STREAM_HEAD;
    if (head.status >= 200 && t->asks != t->answers)
        t->answers++;
    return len;
}

/* True: a head was read, and perhaps there is more in the piece. */
static bool read_head(struct lines *l, struct talk *t, unsigned side, struct piece *p)
{
    struct stream *s = &t->stream[side];
    uint32_t before = s->partial_len;
    struct slice bytes;
    uint32_t n;
    long len = 0;

    if (!gather(l, s, p, &bytes)) {
        l->counts.crowded++;
        lose(l, s);
        return false;
    }
    n = (uint32_t)bytes.len;
    if (!s->line_said && !say_line(l, t, side, (struct piece){bytes.ptr, n, n, p->ns})) {
        lose(l, s);
        return false;
    }
    if (s->line_said && memchr(p->ptr, '\n', p->kept))
        len = parse(t, s, bytes);
    if (len > 0) {
        advance(s, p, (uint32_t)len - before);
        heads_forget(l, s);
        return true;
    }
    if (len == 0 && n < HEAD_BYTES_MAX && p->len == p->kept) {
        if (keep(l, s, p))
            return false;
        l->counts.crowded++;
    } else if (len == 0) {
        l->counts.longer += !s->line_said && n >= HEAD_BYTES_MAX;
        l->counts.gaps += p->len != p->kept;
    }
    lose(l, s);
    return false;
}

/* --- Bodies ----------------------------------------------------------------------------------- */

/* True: the body has ended, and the rest of the piece comes after it. */
static bool read_body(struct lines *l, struct stream *s, struct piece *p)
{
    struct slice data;
    uint64_t n;
    long used;

    switch (s->framing) {
    case FRAMING_NONE:
        return true;
    case FRAMING_LENGTH:
        n = s->left < p->len ? s->left : p->len;
        s->left -= n;
        advance(s, p, (uint32_t)n);
        return s->left == 0;
    case FRAMING_CLOSE:
        return false;
    default:
        break;
    }
    while (p->kept && !http_body_done(&s->body)) {
        used = http_body_next(&s->body, p->ptr, p->kept, &data);
        if (used < 0) {
            lose(l, s);
            return false;
        }
        advance(s, p, (uint32_t)used);
    }
    if (http_body_done(&s->body))
        return true;
    if (p->len) {
        l->counts.gaps++;
        lose(l, s);
    }
    return false;
}

void heads_take(struct lines *l, struct talk *t, unsigned side, struct piece p)
{
    struct stream *s = &t->stream[side];

    if (s->state == STREAM_LOST && p.kept && may_begin((struct slice){p.ptr, p.kept}, true)) {
        s->state = STREAM_HEAD;
        s->guessed = true;
    }
    while (p.len && s->state != STREAM_LOST && s->state != STREAM_TUNNEL) {
        if (s->state == STREAM_HEAD && !read_head(l, t, side, &p))
            break;
        if (s->state != STREAM_BODY)
            continue;
        if (!read_body(l, s, &p))
            break;
        s->state = STREAM_HEAD;
    }
    s->next += p.len; /* these bytes are not read */
}

bool heads_mind(const struct stream *s, uint32_t bytes)
{
    if (s->state == STREAM_HEAD)
        return true;
    if (s->state != STREAM_BODY || s->framing == FRAMING_CLOSE)
        return false;
    return s->framing != FRAMING_LENGTH || s->left < bytes;
}

void heads_miss(struct lines *l, struct talk *t, unsigned side, uint32_t bytes)
{
    struct stream *s = &t->stream[side];

    if (heads_mind(s, bytes)) {
        l->counts.gaps++;
        lose(l, s);
    } else if (s->state == STREAM_BODY && s->framing == FRAMING_LENGTH) {
        s->left -= bytes;
        if (!s->left)
            s->state = STREAM_HEAD;
    }
    s->next += bytes;
}
