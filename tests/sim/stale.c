/* SPDX-License-Identifier: MIT */
/* stale.c - a request that is sent after a change was complete is answered from the new state: one
 * change after another, as fast as the machine makes them, under every engine.
 *
 * A file holds a number.  One thread changes it, in place or by a file that takes its name, and
 * publishes which number is complete; other threads ask for it without a pause and compare.  The
 * wrapped read() pauses between reading an event and acting upon it, so that two workers meet
 * there.  Then the same with a listing: it shows a file's size, which is also changed by a link in
 * another folder.
 *
 * Then the server is made wrong in ways that look right, and the test must notice it: the server
 * does not look for events; it looks before it receives; it does not watch the file itself.
 * An argument says how many changes each engine gets.
 */
#include "../serving.h"
#include "../../server/cache.h"
#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum {
    CHANGES_MAX = 2000,   /* for each engine, unless an argument says otherwise */
    CHANGING_MS = 300,    /* ... and for this long at most */
    LISTING_MS = 200,     /* ... for the changes of a listing */
    CHANGES_MIN = 20,     /* fewer show nothing */
    FAULT_CHANGES = 20000, /* at most, until a planted fault is seen; a few are enough */
    ASKERS = 3,
    WORKERS = 2,
    DIGITS = 9,
    BODY_BYTES = 2 * DIGITS, /* the number twice: a read in the middle of a change shows */
    ASKS_MAX = 8,            /* between two changes, of all askers together */
    ASKS_PAID = 24,          /* extra requests for a listing: then it is kept again */
    ANSWER_BYTES_MAX = 4096,
    READ_PAUSE_US = 50,
    THINK_US = 200,      /* pause of a client in LOOK_BEFORE_RECEIVE: a change happens in it */
    CACHE_BYTES = 8 << 20,
};

static unsigned changes; /* set by the argument; 0: as above */

/* --- The seam --------------------------------------------------------------------------------- */

static enum fault { NONE, NO_LOOK, LOOK_BEFORE_RECEIVE, NO_WATCH_OF_THE_FILE } fault;
static atomic_int events = -1;       /* the cache's queue of events */
static _Thread_local int seen_early; /* bytes that were queued before the receive */

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_init1(int flags)
{
    events = __real_inotify_init1(flags);
    return events;
}

int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    if (fault == NO_WATCH_OF_THE_FILE && !(mask & IN_ONLYDIR))
        mask = IN_DELETE_SELF | (mask & IN_MASK_ADD);
    return __real_inotify_add_watch(fd, path, mask);
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    int err = __real_ioctl(fd, request, arg);

    if (fd != events || request != FIONREAD)
        return err;
    if (fault == NO_LOOK)
        *(int *)arg = 0;
    if (fault == LOOK_BEFORE_RECEIVE)
        *(int *)arg = seen_early;
    return err;
}

ssize_t __real_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags)
{
    if (fault == LOOK_BEFORE_RECEIVE)
        (void)__real_ioctl(events, FIONREAD, &seen_early);
    return __real_recv(fd, buf, n, flags);
}

ssize_t __real_read(int fd, void *buf, size_t n);
ssize_t __wrap_read(int fd, void *buf, size_t n);
ssize_t __wrap_read(int fd, void *buf, size_t n)
{
    static const struct timespec pause = {0, READ_PAUSE_US * 1000};
    ssize_t got = __real_read(fd, buf, n);
    int saved = errno;

    if (fd == events && got > 0)
        nanosleep(&pause, NULL);
    errno = saved;
    return got;
}

/* --- The file --------------------------------------------------------------------------------- */

static char folder[] = "/dev/shm/rung-stale-XXXXXX"; /* a file system whose answers are kept */
static char file_path[64], new_path[64], below_path[64], link_path[64];
static bool listed; /* the number is not in the file but its size */
static atomic_uint begun, complete; /* changes */

static void file_text(char text[BODY_BYTES + 1], unsigned number)
{
    snprintf(text, BODY_BYTES + 1, "%0*u%0*u", DIGITS, number, DIGITS, number);
}

static void file_write(const char *path, int flags, unsigned number)
{
    char text[BODY_BYTES + 1];
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);

    file_text(text, number);
    core_assert(fd >= 0 && pwrite(fd, text, BODY_BYTES, 0) == BODY_BYTES);
    close(fd);
}

static void link_anew(void)
{
    (void)unlink(link_path);
    core_assert(link(file_path, link_path) == 0);
}

static void change_size(unsigned number)
{
    if (number % 3 == 0) {
        file_write(new_path, O_CREAT | O_EXCL, 0);
        core_assert(truncate(new_path, number) == 0 && rename(new_path, file_path) == 0);
        link_anew();
    } else {
        core_assert(truncate(number % 3 == 1 ? link_path : file_path, number) == 0);
    }
}

static void change(unsigned number)
{
    atomic_store(&begun, number);
    if (listed) {
        change_size(number);
    } else if (number % 3) {
        file_write(file_path, 0, number);
    } else {
        file_write(new_path, O_CREAT | O_EXCL, number);
        core_assert(rename(new_path, file_path) == 0);
    }
    atomic_store(&complete, number);
}

/* --- Clients ---------------------------------------------------------------------------------- */

static atomic_uint answers, stale, torn, wrong;
static atomic_bool over;

/* A listing has another length each time, and is chunked if it was made for this request. */
static bool is_whole(const char *text, const char *body, size_t n)
{
    static const char last_chunk[] = "0\r\n\r\n";
    const size_t last = sizeof(last_chunk) - 1;

    if (!listed)
        return n == BODY_BYTES;
    if (!strstr(text, "chunked"))
        return n > 2 && memcmp(body + n - 2, "}\n", 2) == 0;
    return n > last && memcmp(body + n - last, last_chunk, last) == 0;
}

/* Receive the whole answer, or return 0. */
static size_t answer_of(int fd, char *text, size_t cap)
{
    size_t n = 0;

    while (n < cap) {
        long got = client_recv(fd, text + n, cap - n);
        const char *body;

        if (got <= 0)
            return 0;
        n += (size_t)got;
        text[n] = '\0';
        body = strstr(text, "\r\n\r\n");
        if (body && is_whole(text, body + 4, (size_t)(text + n - body) - 4))
            return n;
    }
    return 0;
}

static void judge_number(unsigned long number, unsigned least)
{
    if (number < least)
        atomic_fetch_add(&stale, 1);
    else if (number > atomic_load(&begun))
        atomic_fetch_add(&wrong, 1);
}

static void judge_listing(const char *text, unsigned least)
{
    static const char size[] = "\"size_bytes\":";
    const char *row = strstr(text, "{\"name\":\"number\"");
    const char *number = row ? strstr(row, size) : NULL;

    if (number)
        judge_number(strtoul(number + sizeof(size) - 1, NULL, 10), least);
    else
        atomic_fetch_add(&wrong, 1);
}

static void judge(const char *body, unsigned least)
{
    char first[DIGITS + 1], second[DIGITS + 1];

    snprintf(first, sizeof(first), "%.*s", DIGITS, body);
    snprintf(second, sizeof(second), "%.*s", DIGITS, body + DIGITS);
    if (strcmp(first, second) != 0)
        atomic_fetch_add(&torn, 1); /* read while it was being written */
    else
        judge_number(strtoul(first, NULL, 10), least);
}

static void *ask_on(void *arg)
{
    static const char *const requests[] = {
        "GET /number HTTP/1.1\r\nHost: stale\r\n\r\n",
        "GET /?format=json HTTP/1.1\r\nHost: stale\r\n\r\n"};
    const char *request = requests[listed];
    int fd = client_open(*(const int *)arg);
    const struct timespec think = {0, THINK_US * 1000};
    char text[ANSWER_BYTES_MAX];

    while (!atomic_load(&over)) {
        unsigned least;
        size_t n = 0;

        if (fault == LOOK_BEFORE_RECEIVE) /* the change comes while the server receives */
            nanosleep(&think, NULL);
        least = atomic_load(&complete);
        if (client_send(fd, request, strlen(request)))
            n = answer_of(fd, text, sizeof(text) - 1);
        if (!n) {
            atomic_fetch_add(&wrong, 1);
            break;
        }
        if (listed)
            judge_listing(text, least);
        else
            judge(text + n - BODY_BYTES, least);
        atomic_fetch_add(&answers, 1);
    }
    close(fd);
    return NULL;
}

/* --- One engine ------------------------------------------------------------------------------- */

/* Wait for some answers, so that the cached answer has been requested. */
static void let_them_ask(unsigned some)
{
    unsigned until = atomic_load(&answers) + some;

    while ((int)(until - atomic_load(&answers)) > 0 && !atomic_load(&wrong))
        sched_yield();
}

static void open_site(struct serving *s, const struct engine *e)
{
    const struct site_options opt = {.root = folder,
                                     .rules = {.precompressed = true, .listing = true}};
    const char *why;

    serving_fill(s, e, &http_proto);
    assert_int_equal(site_open(&s->srv.site, &opt, &why), 0);
    s->srv.cache_bytes = CACHE_BYTES;
    s->srv.arrangement.workers = e == &engine_naive ? 1 : WORKERS;
}

/* Make n changes, unless the time is up or a stale answer is seen. */
static void run(const struct engine *e, unsigned n, uint64_t ms)
{
    uint64_t until_ms = serving_ms() + ms;
    unsigned askers = e == &engine_naive ? 1 : ASKERS, seed = 1;
    pthread_t asker[ASKERS];
    struct serving s;

    open_site(&s, e);
    serving_start(&s);
    atomic_store(&answers, 0);
    atomic_store(&stale, 0);
    atomic_store(&torn, 0);
    atomic_store(&over, false);
    change(1);
    for (unsigned i = 0; i < askers; i++)
        assert_int_equal(pthread_create(&asker[i], NULL, ask_on, &s.port), 0);
    for (unsigned i = 2; i < n + 2 && !atomic_load(&stale); i++) {
        if (i > CHANGES_MIN && serving_ms() >= until_ms)
            break;
        let_them_ask((unsigned)rand_r(&seed) % (ASKS_MAX + 1) + (listed ? ASKS_PAID : 0));
        change(i);
    }
    let_them_ask(ASKS_MAX);
    atomic_store(&over, true);
    for (unsigned i = 0; i < askers; i++)
        pthread_join(asker[i], NULL);
    server_stop(&s.srv);
    assert_true(serving_left(&s));
    print_message("%s%s: %u changes, %u answers, %u stale, %u read half; %llu from memory\n",
                  e->name, listed ? ", a listing" : "", atomic_load(&complete),
                  atomic_load(&answers), atomic_load(&stale), atomic_load(&torn),
                  (unsigned long long)stats_sum(s.srv.stats, STAT_CACHE_HITS));
    assert_int_equal(atomic_load(&wrong), 0);
    if (!atomic_load(&stale))
        assert_true(stats_sum(s.srv.stats, STAT_CACHE_HITS) > atomic_load(&complete));
    site_close(s.srv.site);
    serving_empty(&s);
}

static void run_all(void)
{
    fault = NONE;
    for (unsigned i = 0; i < SERVING_ENGINES; i++) {
        const struct engine *e = serving_engines[i];

        if (serving_left_out(e) || e->forks)
            continue; /* an engine that forks keeps nothing */
        run(e, changes ? changes : CHANGES_MAX,
            changes ? UINT64_MAX / 2 : listed ? LISTING_MS : CHANGING_MS);
        assert_int_equal(atomic_load(&stale), 0);
    }
}

/* The planted fault is seen.  naive waits inside its receive, where the change comes. */
static void expect_seen(enum fault planted, const struct engine *e)
{
    fault = planted;
    run(e, FAULT_CHANGES, SERVING_PATIENCE_MS);
    assert_true(atomic_load(&stale) > 0);
    fault = NONE;
}

static void test_nothing_is_stale(void **state)
{
    (void)state;
    listed = false;
    run_all();
}

static void test_no_listing_is_stale(void **state)
{
    (void)state;
    assert_int_equal(mkdir(below_path, 0755), 0);
    link_anew();
    listed = true;
    run_all();
    expect_seen(NO_LOOK, &engine_epoll);
    expect_seen(LOOK_BEFORE_RECEIVE, &engine_naive);
    expect_seen(NO_WATCH_OF_THE_FILE, &engine_epoll);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(rmdir(below_path), 0);
}

static void test_planted_faults_are_seen(void **state)
{
    (void)state;
    listed = false;
    expect_seen(NO_LOOK, &engine_epoll);
    expect_seen(LOOK_BEFORE_RECEIVE, &engine_naive);
    expect_seen(NO_WATCH_OF_THE_FILE, &engine_epoll);
}

static int folder_make(void **state)
{
    int fd;

    (void)state;
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        return -1;
    snprintf(file_path, sizeof(file_path), "%s/number", folder);
    snprintf(new_path, sizeof(new_path), "%s/new", folder);
    snprintf(below_path, sizeof(below_path), "%s/below", folder);
    snprintf(link_path, sizeof(link_path), "%s/below/link", folder);
    file_write(file_path, O_CREAT, 0);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cache_refusal(fd)) {
        print_message("%s: %s\n", folder, cache_refusal(fd));
        return -1;
    }
    close(fd);
    return 0;
}

static int folder_remove(void **state)
{
    (void)state;
    unlink(file_path);
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_stale),
        cmocka_unit_test(test_planted_faults_are_seen),
        cmocka_unit_test(test_no_listing_is_stale),
    };

    if (argc > 1)
        changes = (unsigned)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
