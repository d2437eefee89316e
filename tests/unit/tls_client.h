/* SPDX-License-Identifier: MIT */
/* tls_client.h - a client that speaks TLS by OpenSSL, and the server's side of its connection, in
 * one program without a socket.  Allocations of the server can be refused (refuse.h).
 */
#ifndef TESTS_UNIT_TLS_CLIENT_H
#define TESTS_UNIT_TLS_CLIENT_H
#include <openssl/err.h>
#include <openssl/ssl.h>
#include "../hosted.h"
#include "../refuse_host.h"
#include "../../server/tls.h"

enum { ANSWER_MAX = 1 << 17, ASKS = 3, TURNS_MAX = 10000 };

/* What a client does. */
struct plan {
    const char *name;     /* of the test */
    int version;
    const char *host;     /* SNI */
    const char *groups, *suite; /* of TLS 1.3; NULL: OpenSSL's */
    unsigned char fragment; /* the records that it takes, by RFC 6066 4; 0: all */
    bool staple, resumes;
    unsigned keys;        /* it asks for new keys before this request, from 1 on; 0: never */
    bool server_ends;     /* its last request says so */
};

struct client {
    const struct plan *plan;
    struct hosted h;
    SSL *ssl;
    BIO *in, *out;        /* from the server, to it */
    unsigned asked;
    char got[ANSWER_MAX];
    size_t len;
    bool cut;             /* the server sends nothing more */
    bool ended;           /* close_notify has come */
    bool failed, gone, shut;
    bool bad_signature;   /* of the server's; it has failed for that */
    /* What becomes of the server's output; NULL: it goes to the client. */
    void (*says)(struct client *k, const char *bytes, size_t n);
};

static void (*client_opened)(struct client *k); /* NULL: nothing more is to be set */

static SSL_CTX *client_ctx;
static SSL_SESSION *client_session; /* the newest */

static const char *client_request(const struct plan *plan, unsigned i)
{
    static const char *const requests[ASKS] = {"GET /p10 HTTP/1.1\r\nHost: a\r\n\r\n",
                                               "GET /p100000 HTTP/1.1\r\nHost: a\r\n\r\n",
                                               "GET /p3 HTTP/1.1\r\nHost: a\r\n\r\n"};

    if (plan->server_ends && i + 1 == ASKS)
        return "GET /p3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    return requests[i];
}

/* --- The server's side ------------------------------------------------------------------------ */

static inline void server_says(struct client *k, const char *bytes, size_t n)
{
    if (k->says)
        k->says(k, bytes, n);
    else
        must(BIO_write(k->in, bytes, (int)n) == (int)n);
}

static inline void server_take(struct client *k)
{
    struct conn_out out = conn_out(k->h.c);
    size_t taken = 0;

    for (unsigned i = 0; i < out.count; i++) {
        must(out.seg[i].bytes);
        server_says(k, out.seg[i].bytes, (size_t)out.seg[i].len);
        taken += out.seg[i].len;
    }
    must(taken);
    refuse_on();
    conn_sent(k->h.c, taken, HOSTED_START);
    refuse_off();
}

static inline bool server_hears(struct client *k)
{
    char bytes[RECV_BYTES_MAX];
    int n = BIO_read(k->out, bytes, sizeof(bytes));

    if (n <= 0 && !k->gone)
        return false;
    refuse_on();
    conn_feed(k->h.c, bytes, n > 0 ? (size_t)n : 0, HOSTED_START);
    refuse_off();
    return true;
}

/* The server sends nothing more. */
static inline bool server_shuts(struct client *k)
{
    bool now = !k->cut;

    BIO_set_mem_eof_return(k->in, 0);
    k->cut = true;
    return now;
}

/* Does what can be done now.  False: nothing. */
static inline bool server_step(struct client *k)
{
    switch (k->h.c->want) {
    case CONN_SEND:
        server_take(k);
        return true;
    case CONN_LINGER:
        return server_shuts(k) || server_hears(k);
    case CONN_RECV:
        return server_hears(k);
    default:
        return server_shuts(k);
    }
}

/* --- The client's side ------------------------------------------------------------------------ */

static inline bool client_answered(const struct client *k);

static inline void client_leave(struct client *k, int result)
{
    k->ended = SSL_get_error(k->ssl, result) == SSL_ERROR_ZERO_RETURN;
    k->failed = !k->ended;
    k->bad_signature = k->failed && ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_BAD_SIGNATURE;
    if (k->ended && !k->shut)
        (void)SSL_shutdown(k->ssl);
    k->gone = true;
}

static inline bool client_asks(struct client *k)
{
    const char *text;

    if (k->shut || !client_answered(k))
        return false;
    if (k->asked == ASKS) {
        if (k->plan->server_ends)
            return false;
        (void)SSL_shutdown(k->ssl);
        k->shut = true;
        return true;
    }
    if (k->plan->keys && k->plan->keys == k->asked)
        must(SSL_key_update(k->ssl, SSL_KEY_UPDATE_REQUESTED));
    text = client_request(k->plan, k->asked++);
    must(SSL_write(k->ssl, text, (int)strlen(text)) == (int)strlen(text));
    return true;
}

static inline bool client_step(struct client *k)
{
    int n;

    if (k->gone)
        return false;
    ERR_clear_error();
    n = SSL_read(k->ssl, k->got + k->len, (int)(sizeof(k->got) - k->len));
    if (n > 0) {
        k->len += (size_t)n;
        return true;
    }
    if (SSL_get_error(k->ssl, n) != SSL_ERROR_WANT_READ) {
        client_leave(k, n);
        return true;
    }
    return SSL_is_init_finished(k->ssl) && client_asks(k);
}

/* A connection that fails spoils its session, so there is a copy. */
static inline int client_keeps(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(client_session);
    client_session = SSL_SESSION_dup(session);
    must(client_session);
    return 0;
}

static inline void client_resumes(struct client *k)
{
    SSL_SESSION *copy = SSL_SESSION_dup(client_session);

    must(copy && SSL_set_session(k->ssl, copy));
    SSL_SESSION_free(copy);
}

static inline void client_prepare(void)
{
    client_ctx = SSL_CTX_new(TLS_client_method());
    must(client_ctx);
    SSL_CTX_set_session_cache_mode(client_ctx, SSL_SESS_CACHE_CLIENT |
                                                   SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(client_ctx, client_keeps);
}

static inline void client_forget(void)
{
    SSL_SESSION_free(client_session);
    client_session = NULL;
    SSL_CTX_free(client_ctx);
}

/* --- Both ------------------------------------------------------------------------------------- */

static struct client *client_open(const struct plan *plan, struct tls_setup *setup)
{
    struct client *k = calloc(1, sizeof(*k));

    must(k);
    k->plan = plan;
    k->ssl = SSL_new(client_ctx);
    k->in = BIO_new(BIO_s_mem());
    k->out = BIO_new(BIO_s_mem());
    must(k->ssl && k->in && k->out);
    BIO_set_mem_eof_return(k->in, -1);
    BIO_set_mem_eof_return(k->out, -1);
    SSL_set_bio(k->ssl, k->in, k->out);
    SSL_set_connect_state(k->ssl);
    must(SSL_set_min_proto_version(k->ssl, plan->version));
    must(SSL_set_max_proto_version(k->ssl, plan->version));
    must(SSL_set_tlsext_host_name(k->ssl, plan->host));
    must(SSL_set_alpn_protos(k->ssl, (const unsigned char *)"\x08http/1.1", 9) == 0);
    must(!plan->groups || SSL_set1_groups_list(k->ssl, plan->groups));
    must(!plan->suite || SSL_set_ciphersuites(k->ssl, plan->suite));
    must(SSL_set_tlsext_max_fragment_length(k->ssl, plan->fragment));
    must(!plan->staple || SSL_set_tlsext_status_type(k->ssl, TLSEXT_STATUSTYPE_ocsp));
    if (plan->resumes)
        client_resumes(k);
    k->h.server.tls = setup;
    hosted_open(&k->h, &tls_proto);
    refuse_host(&k->h);
    if (client_opened)
        client_opened(k);
    return k;
}

static inline void client_close(struct client *k)
{
    struct stats *stats = k->h.server.stats;

    hosted_close(&k->h);
    if (stats)
        stats_close(stats);
    SSL_free(k->ssl);
    free(k);
}

/* Until neither side has anything to do. */
static inline void client_run(struct client *k)
{
    unsigned turns = 0;
    bool goes_on = true;

    while (goes_on) {
        must(turns++ < TURNS_MAX);
        goes_on = client_step(k);
        goes_on = server_step(k) || goes_on;
    }
}

/* --- What it got ------------------------------------------------------------------------------ */

/* Answers are the same each time: the date stands still. */
struct answers {
    char text[ANSWER_MAX];
    size_t end[ASKS + 1];
};

static inline void answers_make(struct answers *a, const struct plan *plan)
{
    struct fake *fake = fake_open();
    struct conn c;

    *a = (struct answers){.end = {0}};
    conn_init(&c, &http_proto, &fake->host.conn, HOSTED_START);
    for (unsigned i = 0; i < ASKS; i++) {
        const char *text = client_request(plan, i);
        size_t len = a->end[i];

        conn_feed(&c, text, strlen(text), HOSTED_START);
        while (c.want == CONN_SEND) {
            struct conn_out out = conn_out(&c);

            must(len + out.seg[0].len < sizeof(a->text));
            memcpy(a->text + len, out.seg[0].bytes, out.seg[0].len);
            len += out.seg[0].len;
            conn_sent(&c, out.seg[0].len, HOSTED_START);
        }
        a->end[i + 1] = len;
    }
    conn_fini(&c);
    fake_close(fake);
}

static struct answers answers;

static inline bool client_answered(const struct client *k)
{
    return k->len == answers.end[k->asked];
}

static inline bool client_has_all(const struct client *k)
{
    return k->ended && k->len == answers.end[ASKS];
}

/* Checks what must hold whatever was refused. */
static inline void client_judge(const struct client *k)
{
    bool whole = false;

    must(k->h.c->want == CONN_CLOSE);
    must(k->len <= answers.end[ASKS] && memcmp(k->got, answers.text, k->len) == 0);
    for (unsigned i = 0; i <= ASKS; i++)
        whole = whole || k->len == answers.end[i];
    must(!k->ended || whole);
}

#endif
