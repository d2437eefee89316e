/* SPDX-License-Identifier: MIT */
/* host.c - the server's answers to the core: files come from the site, notes go to log and stats;
 * memory is in buffers.c.
 */
#include <errno.h>
#include <string.h>
#include "address_limits.h"
#include "aim.h"
#include "buffers.h"
#include "cache.h"
#include "h2.h"
#include "health.h"
#include "hosts.h"
#include "route.h"
#include "upload.h"

/* --- Files ------------------------------------------------------------------------------------ */

/* A request just received may have been sent after a change: then the cache must know of it. */
static void look(struct loop *l)
{
    if (!l->cache || l->looked == l->received)
        return;
    l->looked = l->received;
    cache_look(l->cache, l->now_ms);
}

/* On a thread that may wait for the disk. */
static int find_now(struct loop *l, const struct http_ask *ask, struct source **source)
{
    int err;

    if (!l->cache)
        return site_find(l->site, ask, true, source);
    err = cache_find(l->cache, ask, source);
    return err == -EINPROGRESS ? cache_list(l->cache, ask, source) : err;
}

/* A connection whose listing is made on another thread takes that first. */
static bool lies_ready(struct loop *l, const struct http_ask *ask, struct source **source)
{
    return ask->again && l->cache && !(l->offload && offload_is_busy(l->offload)) &&
           cache_ready(l->cache, ask, source);
}

static inline int find(struct loop *l, const struct http_ask *ask, struct source **source)
{
    const struct session *s = session_of_conn(ask->conn);
    int err;

    look(l);
    if (lies_ready(l, ask, source))
        return 0;
    err = l->offload ? offload_find(l->offload, ask, source) : find_now(l, ask, source);
    if (!err)
        site_listing_client(*source, s->fd);
    return err;
}

static void host_release(void *site, struct source *source)
{
    struct loop *l = site;

    if (l->offload)
        offload_release(l->offload, source);
    else
        cache_source_release(l->site, source);
}

/* Tries an answer for another path than the one that was asked for.  A folder does not count: its
 * address is not the one that the client asked for. */
static int find_other(struct loop *l, const struct http_ask *ask, struct source **source)
{
    int err = find(l, ask, source);

    if (err || (*source)->kind != SOURCE_REDIRECT)
        return err;
    host_release(l, *source);
    return -ENOENT;
}

/* The file's path, by which fields are chosen.  A folder that is no listing is its index. */
static void see(struct loop *l, struct slice path, const struct source *source)
{
    static _Thread_local char seen[PATH_BYTES_MAX + NAME_BYTES_MAX + 1];
    const struct route *r = l->route;
    const char *index = source->kind == SOURCE_BODY ? r->index : "";

    l->seen_path = "/";
    l->seen_made = source->kind == SOURCE_MADE;
    if (!r->fields || !r->fields->globs)
        return;
    if (path.ptr[path.len - 1] != '/')
        index = "";
    memcpy(seen, path.ptr, path.len);
    memcpy(seen + path.len, index, strlen(index) + 1);
    l->seen_path = seen;
}

static int move(const struct move *to, struct slice path, struct source **source)
{
    struct slice start = {to->to, to->to_len};
    struct slice rest = {path.ptr + to->from_len, path.len - to->from_len};

    return site_move(to->status, start, rest, source);
}

/* Like find(), for paths that others may answer.  The answer to a second question is never a
 * listing, so it is there at once. */
static int find_routed(struct loop *l, const struct http_ask *ask, struct source **source)
{
    static _Thread_local struct route_way way; /* too large for the stack of a coroutine */
    const struct route *r = l->route;
    const struct move *to = r->moves ? moves_find(r->moves, ask->path) : NULL;
    const struct http_ask *last;
    int err = r->auth || r->peers ? gate_admit(l, ask) : 0;

    l->seen_path = NULL;
    if (err)
        return err;
    last = route_first(r, ask, &way);
    if (to)
        err = move(to, ask->path, source);
    else
        err = last ? find(l, last, source) : -ENOENT;
    while (err == -ENOENT && route_other(r, ask, &way)) {
        last = &way.ask;
        err = find_other(l, last, source);
    }
    if (!err)
        see(l, to ? ask->path : last->path, *source);
    return err;
}

/* find() while a tracer watches, kept out of the path of requests without one.  If a helper makes
 * the answer, it was asked for at the first call. */
static __attribute__((cold, noinline)) int
find_stamped(struct loop *l, const struct http_ask *ask, struct source **source)
{
    uint64_t now = clock_ns(), first = l->offload ? offload_asked(l->offload, ask->conn, 0) : 0;
    int err = l->route ? find_routed(l, ask, source) : find(l, ask, source);

    l->stamps = (struct probe_stamps){0};
    if (err == -EINPROGRESS) {
        if (l->offload && !first)
            offload_asked(l->offload, ask->conn, now);
        return err;
    }
    l->stamps.parsed = first ? first : now;
    l->stamps.found = clock_ns();
    if (!err && (*source)->coding != CODING_IDENTITY)
        l->stamps.compressed = l->stamps.found;
    return err;
}

static int host_find(void *site, const struct http_ask *ask, struct source **source)
{
    struct loop *l = site;

    return probe_is_watched() ? find_stamped(l, ask, source) : find(l, ask, source);
}

static int host_find_routed(void *site, const struct http_ask *ask, struct source **source)
{
    struct loop *l = site;

    return probe_is_watched() ? find_stamped(l, ask, source) : find_routed(l, ask, source);
}

static int host_page(void *site, unsigned status, struct source **source)
{
    struct loop *l = site;

    if (l->route && l->route->only) /* its folder's pages are not served */
        return -ENOENT;
    look(l);
    if (l->cache)
        return cache_page(l->cache, status, source);
    return site_page(l->site, status, source);
}

static int find_either(struct loop *l, const struct http_ask *ask, struct source **source)
{
    return l->route ? host_find_routed(l, ask, source) : host_find(l, ask, source);
}

/* Like host_find() or host_find_routed(), for several sites: some have a route and others do
 * not. */
static int host_find_aimed(void *site, const struct http_ask *ask, struct source **source)
{
    struct loop *l = site;

    if (aim(l, ask->conn, ask->from))
        return -EHOSTUNREACH;
    return find_either(l, ask, source);
}

/* --health: one path is not the folder's. */
static int find_health(struct loop *l, const struct http_ask *ask, struct source **source)
{
    l->health_asked = health_is_asked(ask->path) && gate_lets_in(l, ask);
    if (l->health_asked)
        return health_find(l->worker->server, source);
    return find_either(l, ask, source);
}

static int host_find_health(void *site, const struct http_ask *ask, struct source **source)
{
    struct loop *l = site;

    if (l->aim && aim(l, ask->conn, ask->from))
        return -EHOSTUNREACH;
    return find_health(l, ask, source);
}

/* --limit-requests: everything is asked of the client's bucket first.  The host is chosen before
 * that, because a refusal has its page; a request that is misdirected counts, too. */
static int host_find_limited(void *site, const struct http_ask *ask, struct source **source)
{
    struct loop *l = site;
    bool misdirected = l->aim && aim(l, ask->conn, ask->from);

    if (!limits_admit(l, ask->conn, ask->from))
        return -EDQUOT;
    if (misdirected)
        return -EHOSTUNREACH;
    return l->worker->server->health ? find_health(l, ask, source) : find_either(l, ask, source);
}

static int host_page_health(void *site, unsigned status, struct source **source)
{
    struct loop *l = site;
    bool asked = l->health_asked && status == 503;

    l->health_asked = false;
    return asked ? health_page(l->worker->server, source) : host_page(site, status, source);
}

static void host_release_health(void *site, struct source *source)
{
    if (!health_owns(source))
        host_release(site, source);
}

static void host_forget(void *site, const struct conn *conn)
{
    struct loop *l = site;

    if (l->offload)
        (void)offload_forget(l->offload, conn);
    if (l->gate)
        (void)offload_forget(l->gate, conn);
}

/* HTTP/2 without TLS: a client that knows of it begins with the preface (RFC 9113 3.3).  With TLS
 * the handshake has settled what is spoken. */
static int host_other(void *site, struct conn *conn, const char *bytes, size_t n)
{
    const struct conn_proto *h2 = h2_protocol();
    size_t len = sizeof(H2_PREFACE) - 1;

    (void)site;
    if (!h2 || conn->nested || memcmp(bytes, H2_PREFACE, n < len ? n : len) != 0)
        return 0;
    if (n < len)
        return -EAGAIN;
    conn->proto = h2;
    return 1;
}

/* A client that named the port of --redirect-http has reached this machine directly.  One that
 * named another port, or none, may have come by a device that maps 80 to that port, and 443 to the
 * port of https. */
static unsigned host_https_port(void *site, const struct conn *conn, unsigned port)
{
    const struct server *srv = ((struct loop *)site)->worker->server;

    if (!is_redirected(srv, session_of_conn(conn)->fd))
        return 0;
    port = port ? port : HTTP_PORT;
    return port == HTTP_PORT && port != srv->plain_port ? HTTPS_PORT : srv->port;
}

/* --- What was answered ------------------------------------------------------------------------ */

/* Those of options, and --server-timing. */
static size_t host_fields(void *site, const struct conn *conn, unsigned status, char *out)
{
    _Static_assert(FIELDS_BYTES_MAX + PROBE_FIELD_BYTES_MAX <= HOST_FIELDS_BYTES_MAX, "room");
    struct loop *l = site;
    const struct server *srv = l->worker->server;
    size_t n = 0;

    if (l->route && l->route->fields) {
        struct fields_of of = {.status = status, .path = l->seen_path, .made = l->seen_made,
                               .secure = srv->tls && conn->proto != &http_secure_proto};

        n = fields_write(l->route->fields, &of, out);
    }
    l->seen_path = NULL;
    return srv->server_timing ? n + probe_field(&l->stamps, out + n) : n;
}

static void *log_note(struct loop *l, const struct conn *conn, const struct http_receipt *receipt,
                      const struct probe_stamps *stamps)
{
    struct http_receipt said = *receipt;

    said.h2 = conn->nested && ((const struct nested *)conn)->outer->duplex;
    return log_begin(l->log, session_of_conn(conn)->fd, &said, stamps);
}

/* host_answer() while a tracer watches.  A refused request has asked for nothing: it has only been
 * parsed. */
static __attribute__((cold, noinline)) void *
answer_stamped(struct loop *l, const struct conn *conn, const struct http_receipt *receipt)
{
    const struct session *s = session_of_conn(conn);
    struct probe_stamps stamps = l->stamps;

    l->stamps = (struct probe_stamps){0};
    if (!stamps.parsed)
        stamps.parsed = clock_ns();
    probe_fire_answer(s->fd, conn->requests + 1, &stamps);
    return log_note(l, conn, receipt, &stamps);
}

static void *host_answer(void *site, const struct conn *conn, const struct http_receipt *receipt)
{
    struct loop *l = site;

    stats_add(l->worker->server->stats, STAT_ANSWERS, 1);
    if (probe_is_watched())
        return answer_stamped(l, conn, receipt);
    return l->log ? log_note(l, conn, receipt, NULL) : NULL;
}

static void host_answered(void *site, void *note, uint64_t body_bytes, bool complete)
{
    struct loop *l = site;
    struct server *srv = l->worker->server;

    stats_add(srv->stats, complete ? STAT_COMPLETE : STAT_BROKEN, 1);
    stats_add(srv->stats, STAT_BODY_BYTES, body_bytes);
    if (note)
        log_end(note, body_bytes, complete);
}

/* --metrics: the same, counted by method and status and measured.  A note with the time is put
 * around the log's.  Without memory for it the answer is neither measured nor logged, and its bytes
 * are counted as the first host's, because none may be missing from the sum. */
struct metered {
    uint64_t begun_ns;
    void *note;
    unsigned host;
};

static void *host_answer_metered(void *site, const struct conn *conn,
                                 const struct http_receipt *receipt)
{
    struct loop *l = site;
    struct metered *m = buffers_get(l, sizeof(*m));
    unsigned host = aim_number(l);

    stats_add(l->worker->server->stats, STAT_ANSWERS, 1);
    meter_begin(l->worker->server->stats, host, receipt);
    if (!m) {
        l->stamps = (struct probe_stamps){0};
        return NULL;
    }
    m->host = host;
    m->begun_ns = l->stamps.parsed ? l->stamps.parsed : clock_ns();
    m->note = answer_stamped(l, conn, receipt);
    return m;
}

static void host_answered_metered(void *site, void *note, uint64_t body_bytes, bool complete)
{
    struct loop *l = site;
    struct metered *m = note;
    uint64_t ns = m ? clock_ns() - m->begun_ns : 0;

    host_answered(site, m ? m->note : NULL, body_bytes, complete);
    meter_sent(l->worker->server->stats, m ? m->host : 0, body_bytes);
    if (m && complete) /* after it was counted as complete: metrics_text.c relies on that */
        meter_took(l->worker->server->stats, ns);
    if (m)
        buffers_put(l, m, sizeof(*m));
}

static uint32_t clamp_ms(uint64_t ms)
{
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

void host_init(struct http_host *h, struct loop *l)
{
    const struct server *srv = l->worker->server;

    *h = (struct http_host){
        .conn = {
            .ctx = l,
            .alloc = buffers_get,
            .free = buffers_put,
            .release = host_release,
            .answered = host_answered,
            .forget = host_forget,
            .head_ms = clamp_ms(srv->head_ms),
            .idle_ms = clamp_ms(srv->idle_ms),
            .send_ms = clamp_ms(srv->send_ms),
            .progress_bytes = srv->progress_bytes,
        },
        .aim = aim_needed(srv) ? aim : NULL,
        .find = aim_needed(srv) ? host_find_aimed : srv->route ? host_find_routed : host_find,
        .page = host_page,
        .answer = host_answer,
        .other = host_other,
        .https_port = host_https_port,
        .store = hosts_take_uploads(srv->hosts) ? &upload_store : NULL,
        .fields = srv->server_timing || aim_has_fields(srv) ? host_fields : NULL,
        .date = l->date,
        .server = srv->server_field,
        .body_bytes_max = srv->body_bytes_max,
        .retry_s = srv->limits ? limits_retry_s(srv->limits) : 1,
    };
    if (srv->health) {
        h->find = host_find_health;
        h->page = host_page_health;
        h->conn.release = host_release_health;
    }
    if (srv->limits && limits_requests(srv->limits)) {
        h->find = host_find_limited;
        h->admit = limits_admit;
    }
    if (srv->metrics) {
        h->answer = host_answer_metered;
        h->conn.answered = host_answered_metered;
    }
}
