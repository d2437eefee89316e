/* SPDX-License-Identifier: MIT */
/* faults_server.h - a whole server on a thread, with a small folder, behind the seam.
 *
 * The thread opens and closes everything itself, so that starting and ending are under test too.  A
 * hang or a crash ends the program and names the case.
 */
#ifndef TESTS_FAULTS_SERVER_H
#define TESTS_FAULTS_SERVER_H
#include "faults_seam.h"
#include "faults_time.h"
#include "faults_client.h"
#include <setjmp.h>
#include <signal.h>
#include <cmocka.h>

enum {
    DEADLINE_MS = 3000,   /* of the server: a connection that lost data is closed after it */
    PATIENCE_S = 30,      /* of one run; a hang ends the program and names its case */
    LONG_BYTES = 300000,  /* more than one transfer of sendfile */
    SHORT_BYTES = 700
};

static char folder[] = "/tmp/rung-faults-XXXXXX";
static char log_path[64];
static char short_body[SHORT_BYTES], long_body[LONG_BYTES];
static char running[128]; /* the case, for the handler of SIGALRM and crashes */

/* --- The server ------------------------------------------------------------------------------- */

struct run {
    struct server srv;
    int listener[1][LISTENERS_MAX];
    pthread_t thread;
    atomic_int port; /* 0: not open yet */
    atomic_bool left;
    int result;
};

static inline int server_open(struct run *r)
{
    const struct site_options opt = {
        .root = folder, .rules = {.listing = true, .precompressed = true}};
    const char *why;
    int err = serving_open(&r->srv);

    if (err)
        return err;
    err = site_open(&r->srv.site, &opt, &why);
    return err ? err : log_open(&r->srv.log, LOG_COMBINED, log_path);
}

static inline void server_close(struct run *r)
{
    if (r->srv.log)
        log_close(r->srv.log);
    if (r->srv.site)
        site_close(r->srv.site);
    if (r->srv.listeners)
        close(r->srv.listener[0][0]);
    if (r->srv.stats) {
        uint64_t open = stats_live(r->srv.stats);

        core_assert(open == 0);
        core_assert(stats_sum(r->srv.stats, STAT_ANSWERS) ==
                    stats_sum(r->srv.stats, STAT_COMPLETE) + stats_sum(r->srv.stats, STAT_BROKEN));
        stats_close(r->srv.stats);
    }
}

static inline void *run_main(void *arg)
{
    struct run *r = arg;

    r->result = server_open(r);
    if (!r->result) {
        atomic_store(&r->port, net_port(r->srv.listener[0][0]));
        r->result = server_run(&r->srv);
    }
    server_close(r);
    atomic_store(&r->left, true);
    return NULL;
}

static struct send_how run_how; /* how the next run sends */

/* The test waits this long between two looks: a server starts or stops in little more time. */
static inline void short_nap(void)
{
    static const struct timespec length = {.tv_nsec = 100000};

    nanosleep(&length, NULL);
}

static inline struct run *run_start(const struct engine *e)
{
    static struct run r;

    memset(&r, 0, sizeof(r));
    serving_options(&r.srv, e, &http_proto, DEADLINE_MS);
    r.srv.progress_bytes = 1;
    r.srv.connections_max = 16;
    r.srv.listener = r.listener;
    r.srv.arrangement.send = run_how;
    assert_int_equal(pthread_create(&r.thread, NULL, run_main, &r), 0);
    while (!atomic_load(&r.port) && !atomic_load(&r.left))
        short_nap();
    return &r;
}

static inline void run_stop(struct run *r)
{
    time_skips(true);
    server_stop(&r->srv);
}

/* The descriptor that stops the server is closed last: server_stop() may still be using it. */
static inline void run_join(struct run *r)
{
    pthread_join(r->thread, NULL);
    time_skips(false);
    if (r->srv.stop_fd >= 0)
        close(r->srv.stop_fd);
}

static inline bool wait_left(struct run *r)
{
    uint64_t until_ms = serving_ms() + SERVING_PATIENCE_MS;

    while (!atomic_load(&r->left) && serving_ms() < until_ms)
        short_nap();
    return atomic_load(&r->left);
}

static inline void on_signal(int number)
{
    static const char hang[] = "\nHANGS: ", crash[] = "\nCRASHES: ";
    ssize_t n;

    seam_exempt = true; /* on whatever thread this is */
    n = number == SIGALRM ? write(STDERR_FILENO, hang, sizeof(hang) - 1)
                          : write(STDERR_FILENO, crash, sizeof(crash) - 1);
    n += write(STDERR_FILENO, running, strlen(running));
    signal(SIGABRT, SIG_DFL);
    if (n >= 0)
        abort();
}

/* --- The folder ------------------------------------------------------------------------------- */

static inline void file_write(const char *name, const char *bytes, size_t n)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline int folder_make(void **state)
{
    char path[64];

    (void)state;
    for (unsigned i = 0; i < LONG_BYTES; i++)
        long_body[i] = (char)('a' + i % 23);
    memset(short_body, 's', sizeof(short_body));
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/list", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    file_write("index.html", short_body, SHORT_BYTES);
    file_write("long", long_body, LONG_BYTES);
    file_write("list/a", "a", 1);
    file_write("list/b", "b", 1);
    snprintf(log_path, sizeof(log_path), "%s.log", folder);
    return 0;
}

static inline int folder_remove(void **state)
{
    static const char *const names[] = {"/index.html", "/long", "/list/a", "/list/b",
                                        "/list",       "",      ".log"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", folder, names[i]);
        remove(path);
    }
    return 0;
}

static inline void tell_left_out(void);
static const char *only;

/* The first thing main() does. */
static inline void begin_program(char **argv)
{
    seam_exempt = true;
    only = argv[1];
    tell_left_out();
    atomic_store(&seam_no_openat2, syscall(SYS_openat2, -1, "", NULL, 0) < 0 && errno == ENOSYS);
    signal(SIGALRM, on_signal);
    signal(SIGABRT, on_signal);
}

/* --- Engines ---------------------------------------------------------------------------------- */

/* A teardown that names the case that failed. */
static inline int tell(void **state)
{
    (void)state;
    if (running[0])
        print_message("in: %s", running);
    running[0] = '\0';
    return 0;
}

static const char *only; /* the program's argument: serving_asked() */

/* The seam does not reach calls made in a child: forks.c tests those. */
static inline bool can_run(const struct engine *e)
{
    return !e->forks && !serving_left_out(e) && serving_asked(e, only);
}

/* Print the engines that are left out, with the reason. */
static inline void tell_left_out(void)
{
    for (size_t i = 0; i < SERVING_ENGINES; i++) {
        const struct engine *e = serving_engines[i];
        const char *why = serving_left_out(e);

        if (e->forks)
            why = "its calls are made in children; forks.c makes it fail";
        if (why)
            print_message("without engine %s: %s\n", e->name, why);
    }
}

#endif
