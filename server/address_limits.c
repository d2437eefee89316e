/* SPDX-License-Identifier: MIT */
/* address_limits.c - connections and requests are counted for their client's address; see
 * address_limits.h.
 *
 * A connection that is one too many is answered if that costs little: it becomes a session whose
 * protocol answers 429 and closes, so that the answer is delivered, logged and counted like any
 * other.  At most LIMITS_ANSWERED_MAX of an address have that at a time.  The others, and all of
 * them where the answer would need a handshake first (TLS), are closed when they are accepted,
 * before they cost a slot, a thread or a process (RFC 6585 7.2 allows it).
 *
 * The seat of a connection is written before its place counts it, and the place stops counting it
 * before the seat is cleared.  So a process that is killed between the two leaves a count that is
 * too low, and right again when the address has no connection left.  A count that is too high would
 * never be corrected.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "address_limits.h"
#include "address_table.h"
#include "client.h"

#define SEAT_REFUSED UINT32_C(0x80000000)
enum {
    MS_NS = 1000000,
    DESCRIPTORS_BESIDE = 1024 /* that are no connections */
};

struct limits {
    struct rate rate;         /* each_ns 0: requests have no limit */
    uint64_t connections_max; /* of an address; 0: no limit */
    bool answers;             /* a connection that is one too many gets an answer */
    uint32_t seats;           /* of a process */
    size_t bytes;             /* of all this */
    struct address_table table;
    _Atomic uint32_t used[WORKERS_MAX]; /* of the seats of each process: the highest, and one */
    /* By process and descriptor: the place's number and one, and whether the connection is
     * refused; 0: none. */
    _Atomic uint32_t seat[];
};

static unsigned mine; /* this process's number, set once, before its threads start */

/* --- Seats ------------------------------------------------------------------------------------ */

static _Atomic uint32_t *seat_of(const struct limits *limits, int fd)
{
    struct limits *l = (struct limits *)(uintptr_t)limits;

    return (uint32_t)fd < l->seats ? &l->seat[(size_t)mine * l->seats + (uint32_t)fd] : NULL;
}

static uint32_t seat_word(const struct limits *limits, int fd)
{
    const _Atomic uint32_t *seat = seat_of(limits, fd);

    return seat ? atomic_load_explicit(seat, memory_order_relaxed) : 0;
}

static struct address_place *place_of(struct limits *limits, uint32_t word)
{
    return &limits->table.place[(word & ~SEAT_REFUSED) - 1];
}

static void count_less(struct limits *limits, uint32_t word)
{
    struct address_place *p = place_of(limits, word);

    address_place_less(word & SEAT_REFUSED ? &p->refused : &p->open);
}

/* A seat that is taken already was left behind: by a child of the engine fork that outlived its
 * worker by a moment. */
static void sit_down(struct limits *limits, int fd, struct address_place *p, bool refused)
{
    uint32_t used = atomic_load_explicit(&limits->used[mine], memory_order_relaxed);
    uint32_t word = (uint32_t)(p - limits->table.place) + 1, before;

    while (used <= (uint32_t)fd &&
           !atomic_compare_exchange_weak(&limits->used[mine], &used, (uint32_t)fd + 1))
        ;
    before = atomic_exchange(seat_of(limits, fd), refused ? word | SEAT_REFUSED : word);
    if (before)
        count_less(limits, before);
    atomic_fetch_add(refused ? &p->refused : &p->open, 1);
}

void limits_leave(struct limits *limits, int fd)
{
    uint32_t word = seat_word(limits, fd);

    if (!word)
        return;
    count_less(limits, word);
    atomic_store(seat_of(limits, fd), 0);
}

void limits_use(struct limits *limits, unsigned number)
{
    (void)limits;
    mine = number;
}

void limits_lose(struct limits *limits, unsigned number)
{
    _Atomic uint32_t *seat = &limits->seat[(size_t)number * limits->seats];
    uint32_t used = atomic_exchange(&limits->used[number], 0);

    for (uint32_t i = 0; i < used; i++) {
        uint32_t word = atomic_exchange(&seat[i], 0);

        if (word)
            count_less(limits, word);
    }
}

/* --- Connections ------------------------------------------------------------------------------ */

/* The place's row is locked, so no other connection takes what is left. */
static enum limits_verdict judge(const struct limits *limits, const struct address_place *p)
{
    if (!limits->connections_max || atomic_load(&p->open) < limits->connections_max)
        return LIMITS_SERVE;
    return limits->answers && atomic_load(&p->refused) < LIMITS_ANSWERED_MAX ? LIMITS_ANSWER
                                                                            : LIMITS_CLOSE;
}

enum limits_verdict limits_enter(struct server *srv, int fd)
{
    const struct address a = client_of_connection(srv->clients, fd);
    struct limits *limits = srv->limits;
    enum limits_verdict verdict;
    struct address_place *p;

    if (!seat_of(limits, fd) || !address_is_counted(&a))
        return LIMITS_SERVE;
    p = address_table_enter(&limits->table, &a);
    if (!p)
        return LIMITS_SERVE;
    verdict = judge(limits, p);
    if (verdict != LIMITS_CLOSE)
        sit_down(limits, fd, p, verdict == LIMITS_ANSWER);
    address_table_leave(&limits->table, p);
    if (verdict != LIMITS_SERVE)
        stats_add(srv->stats, STAT_LIMITED_CONNECTIONS, 1);
    return verdict;
}

/* With --proxy-protocol the client is not known before the header has come (proxy.c). */
bool limits_accept(struct server *srv, int fd)
{
    if (srv->opt->proxy_protocol || limits_enter(srv, fd) != LIMITS_CLOSE)
        return true;
    close(fd);
    return false;
}

const struct conn_proto *limits_protocol(const struct limits *limits, int fd,
                                         const struct conn_proto *proto)
{
    return seat_word(limits, fd) & SEAT_REFUSED ? &http_refused_proto : proto;
}

/* --- Requests --------------------------------------------------------------------------------- */

bool limits_requests(const struct limits *limits)
{
    return limits->rate.each_ns != 0;
}

uint32_t limits_retry_s(const struct limits *limits)
{
    return rate_retry_s(&limits->rate);
}

/* Counts a request that came on a connection of many clients. */
static bool take_by_address(struct limits *limits, const struct address *a, uint64_t now_ns)
{
    struct address_place *p = address_is_counted(a) ? address_table_enter(&limits->table, a) : NULL;
    bool taken;

    if (!p)
        return true;
    taken = rate_take(&limits->rate, &p->full_ns, now_ns);
    address_table_leave(&limits->table, p);
    return taken;
}

bool limits_admit(void *loop, const struct conn *c, const struct http_head *head)
{
    struct loop *l = loop;
    struct server *srv = l->worker->server;
    int fd = session_of_conn(c)->fd;
    uint32_t word = seat_word(srv->limits, fd);
    uint64_t now_ns = l->now_ms * MS_NS;
    struct address a;
    bool taken;

    if (conn_asks_again(c))
        return true;
    if (word) {
        taken = rate_take(&srv->limits->rate, &place_of(srv->limits, word)->full_ns, now_ns);
    } else if (head) {
        client_address(srv->clients, fd, head, &a);
        taken = take_by_address(srv->limits, &a, now_ns);
    } else {
        taken = true; /* it names none of its connection's clients */
    }
    if (!taken)
        stats_add(srv->stats, STAT_LIMITED_REQUESTS, 1);
    return taken;
}

void limits_spend(struct loop *l, const struct conn *c)
{
    struct limits *limits = l->worker->server->limits;
    uint32_t word = limits ? seat_word(limits, session_of_conn(c)->fd) : 0;

    if (word && limits_requests(limits))
        (void)rate_take(&limits->rate, &place_of(limits, word)->full_ns, l->now_ms * MS_NS);
}

/* --- Options ---------------------------------------------------------------------------------- */

/* Descriptors of one process that may be connections. */
static uint32_t seats_needed(const struct server *srv)
{
    struct rlimit limit = {.rlim_cur = INT32_MAX};
    uint64_t most = 4 * srv->connections_max + DESCRIPTORS_BESIDE;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    most = most < limit.rlim_cur ? most : limit.rlim_cur;
    return most < INT32_MAX ? (uint32_t)most : INT32_MAX;
}

/* Pages of the mapping are taken only where addresses and connections are. */
static int make(struct server *srv, const struct rate *rate)
{
    const struct arrangement *a = &srv->arrangement;
    uint32_t seats = seats_needed(srv);
    size_t all = (size_t)seats * (a->processes ? a->workers : 1);
    size_t bytes = sizeof(struct limits) + all * sizeof(_Atomic uint32_t);
    struct limits *limits = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int err;

    if (limits == MAP_FAILED)
        return -errno;
    limits->rate = *rate;
    limits->connections_max = srv->opt->limit_connections;
    limits->answers = srv->proto == &http_proto;
    limits->seats = seats;
    limits->bytes = bytes;
    srv->limits = limits;
    err = address_table_open(&limits->table);
    return err;
}

int limits_open(struct server *srv)
{
    const struct serve_options *opt = srv->opt;
    struct rate rate = {.each_ns = 0};
    int err;

    if (opt->limit_requests && !rate_parse(&rate, opt->limit_requests)) {
        say_error("--limit-requests '%s': write a number for each second, minute or hour, and how "
                  "many may come at once: 10/s or 600/m:50; numbers are 1 to %d",
                  opt->limit_requests, RATE_MAX);
        return EXIT_USAGE;
    }
    if (!opt->limit_requests && !opt->limit_connections)
        return EXIT_DONE;
    err = make(srv, &rate);
    if (!err)
        return EXIT_DONE;
    say_error("cannot start: %s", say_why(err));
    return EXIT_FAILED;
}

void limits_close(struct limits *limits)
{
    if (limits)
        munmap(limits, limits->bytes);
}
