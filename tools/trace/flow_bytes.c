/* SPDX-License-Identifier: MIT */
/* flow_bytes.c - the bytes of a connection become heads and bodies, both ways, by the core's
 * grammar.
 *
 * The first bytes of a packet can be read, and the rest are only counted.  A body of a known length
 * needs no more than that.  The stream is lost until the next request begins if bytes of a head or
 * of a chunked body are missing.
 */
#include <stdlib.h>
#include "flow.h"

void flow_lose(struct flows *fs, struct stream *s)
{
    fs->counts.lost++;
    s->state = STREAM_UNKNOWN;
    s->partial_len = 0;
}

/* NULL: there are too many, or no memory. */
static struct request *begin_request(struct flows *fs, struct flow *f, const struct piece *p)
{
    struct request *r = fs->spare;

    if (f->held >= REQUESTS_MAX) {
        fs->counts.crowded++;
        return NULL;
    }
    if (r)
        fs->spare = r->next;
    else
        r = malloc(sizeof(*r));
    if (!r)
        return NULL;
    f->pipelined = f->pipelined || flow_asking(f);
    memset(r, 0, sizeof(*r));
    r->cookie = f->cookie;
    r->ordinal = ++f->requests;
    r->begin = p->seq;
    r->at[STAGE_ARRIVED] = p->ns;
    if (r->ordinal == 1) {
        r->opened = f->opened;
        r->at[STAGE_ACCEPTED] = f->accepted;
    }
    r->peer_port = f->peer_port;
    memcpy(r->peer, f->peer, sizeof(r->peer));
    if (f->last)
        f->last->next = r;
    else
        f->first = r;
    f->last = r;
    f->held++;
    return r;
}

static void advance(struct stream *s, struct piece *p, uint32_t n)
{
    uint32_t readable = n < p->kept ? n : p->kept;

    s->next += n;
    p->ptr += readable;
    p->kept -= readable;
    p->seq += n;
    p->len -= n;
}

static void set_body(struct stream *s, const struct http_head *head)
{
    s->framing = (uint8_t)head->framing;
    s->left = head->framing == FRAMING_LENGTH ? head->content_length : 0;
    http_body_init(&s->body, head->framing, head->content_length);
    s->state = STREAM_BODY;
}

/* True: the body has ended, and the rest of the piece comes after it.  False: all of the piece was
 * body, or the stream is lost. */
static bool read_body(struct flows *fs, struct stream *s, struct piece *p)
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
        advance(s, p, p->len);
        return false;
    default:
        break;
    }
    while (p->kept && !http_body_done(&s->body)) {
        used = http_body_next(&s->body, p->ptr, p->kept, &data);
        if (used < 0) {
            flow_lose(fs, s);
            return false;
        }
        advance(s, p, (uint32_t)used);
    }
    if (http_body_done(&s->body))
        return true;
    if (p->len)
        flow_lose(fs, s);
    return false;
}

/* The bytes of a head so far: those of the piece, or of earlier ones and this.  ptr NULL: lost. */
static struct slice gather(struct stream *s, const struct piece *p)
{
    size_t room, n;

    if (!s->partial_len)
        return (struct slice){p->ptr, p->kept};
    room = HEAD_BYTES_MAX - s->partial_len;
    n = p->kept < room ? p->kept : room;
    memcpy(s->partial + s->partial_len, p->ptr, n);
    return (struct slice){s->partial, s->partial_len + n};
}

/* Keeps a head that is not complete for the next piece.  False: it cannot be kept. */
static bool partial(struct stream *s, struct piece *p)
{
    if (!s->partial)
        s->partial = malloc(HEAD_BYTES_MAX);
    if (!s->partial || p->len > p->kept || s->partial_len + p->kept > HEAD_BYTES_MAX)
        return false;
    memcpy(s->partial + s->partial_len, p->ptr, p->kept);
    s->partial_len += p->kept;
    advance(s, p, p->len);
    return true;
}

static void copy_text(char *to, size_t cap, struct slice from)
{
    size_t n = from.len < cap - 1 ? from.len : cap - 1;

    memcpy(to, from.ptr ? from.ptr : "", from.ptr ? n : 0);
    to[from.ptr ? n : 0] = 0;
}

/* Copies the method and target that a head seems to have although the grammar refuses it. */
static void copy_words(struct request *r, struct slice bytes)
{
    const char *end = bytes.ptr + bytes.len, *blank = memchr(bytes.ptr, ' ', bytes.len), *stop;

    if (!blank)
        blank = end;
    copy_text(r->method, sizeof(r->method), (struct slice){bytes.ptr, (size_t)(blank - bytes.ptr)});
    blank = blank < end ? blank + 1 : end;
    for (stop = blank; stop < end && *stop != ' ' && *stop != '\r' && *stop != '\n'; stop++)
        ;
    copy_text(r->target, sizeof(r->target), (struct slice){blank, (size_t)(stop - blank)});
}

static void head_whole(struct flows *fs, struct request *r, uint32_t end, uint64_t ns)
{
    r->head_whole = true;
    r->head_end = end;
    r->at[STAGE_HEAD] = ns;
    fs->counts.seen++;
}

/* True: a head was read, and perhaps there is more in the piece. */
static bool read_request(struct flows *fs, struct flow *f, struct piece *p)
{
    struct stream *s = &f->in;
    struct request *r = s->partial_len ? f->last : begin_request(fs, f, p);
    struct slice bytes;
    struct http_head head;
    long len;

    if (!r) {
        flow_lose(fs, s);
        return false;
    }
    bytes = gather(s, p);
    len = http_parse_request(bytes.ptr, bytes.len, &head);
    if (len == 0) {
        if (!partial(s, p))
            flow_lose(fs, s);
        return false;
    }
    if (len < 0) { /* the server may take it for a request, and its end is not known */
        copy_words(r, bytes);
        head_whole(fs, r, p->seq + p->len, p->ns);
        s->state = STREAM_UNKNOWN;
        s->partial_len = 0;
        return false;
    }
    copy_text(r->method, sizeof(r->method), head.method_text);
    copy_text(r->target, sizeof(r->target), head.target);
    set_body(s, &head);
    advance(s, p, (uint32_t)len - s->partial_len);
    s->partial_len = 0;
    head_whole(fs, r, s->next, p->ns);
    return true;
}

bool bytes_begin_request(const char *p, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && i < METHOD_TEXT && p[i] >= 'A' && p[i] <= 'Z')
        i++;
    return i >= 3 && i < n && p[i] == ' ';
}

void bytes_in(struct flows *fs, struct flow *f, struct piece p)
{
    while (p.len && f->in.state != STREAM_UNKNOWN) {
        if (f->in.state == STREAM_HEAD && !read_request(fs, f, &p))
            return;
        if (!read_body(fs, &f->in, &p))
            return;
        f->in.state = STREAM_HEAD;
    }
}

/* --- Answers ---------------------------------------------------------------------------------- */

static enum http_method method_of(const struct request *r)
{
    return strcmp(r->method, "HEAD") == 0 ? HTTP_HEAD : HTTP_GET;
}

static void bound(struct request *r, uint32_t end)
{
    r->bounded = true;
    r->out_end = end;
}

static bool read_answer(struct flows *fs, struct flow *f, struct request *r, struct piece *p)
{
    struct stream *s = &f->out;
    struct slice bytes;
    struct http_head head;
    long len;

    if (!r->begun) {
        r->begun = true;
        r->out_begin = p->seq;
        r->at[STAGE_OUT] = p->ns;
    }
    bytes = gather(s, p);
    len = http_parse_response(bytes.ptr, bytes.len, method_of(r), &head);
    if (len <= 0) {
        if (len < 0 || !partial(s, p))
            flow_lose(fs, s);
        return false;
    }
    advance(s, p, (uint32_t)len - s->partial_len);
    s->partial_len = 0;
    if (head.status < 200 && head.status != 101) { /* interim: the answer itself follows */
        r->begun = false;
        r->at[STAGE_OUT] = 0;
        return p->len && read_answer(fs, f, r, p);
    }
    r->status = (uint16_t)head.status;
    set_body(s, &head);
    if (s->framing == FRAMING_LENGTH || s->framing == FRAMING_NONE)
        bound(r, s->next + (uint32_t)s->left);
    return true;
}

void bytes_out(struct flows *fs, struct flow *f, struct piece p)
{
    while (p.len && f->out.state != STREAM_UNKNOWN) {
        struct request *r = flow_asking(f);

        if (!r) { /* an answer to no request that was seen */
            f->out.state = STREAM_UNKNOWN;
            return;
        }
        if (f->out.state == STREAM_HEAD && !read_answer(fs, f, r, &p))
            return;
        if (!read_body(fs, &f->out, &p))
            return;
        f->out.state = STREAM_HEAD;
        bound(r, f->out.next);
        r->at[STAGE_DONE] = p.ns;
    }
}
