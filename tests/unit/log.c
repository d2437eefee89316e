/* SPDX-License-Identifier: MIT */
/* log.c - unit tests of server/log.c: both formats with hostile bytes, bounded lines, a full
 * disk, reopening the log, many threads,
 * several processes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>
#include <cmocka.h>
#include "../../server/inside.h"

static char folder[] = "/tmp/rung-log-XXXXXX";
static char path[64], moved[64];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/log", folder);
    snprintf(moved, sizeof(moved), "%s/old", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    unlink(moved);
    return rmdir(folder);
}

static size_t contents(const char *name, char *buf, size_t cap)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n;

    assert_true(fd >= 0);
    while (len < cap - 1 && (n = read(fd, buf + len, cap - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    buf[len] = 0;
    return len;
}

static struct slice slice(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* A head as the parser leaves it. */
static void head_make(struct http_head *head, const char *target)
{
    memset(head, 0, sizeof(*head));
    head->method_text = slice("GET");
    head->target = slice(target);
    head->minor = 1;
}

static void head_add(struct http_head *head, enum http_field_id id, struct slice value)
{
    head->field[head->fields].value = value;
    head->field[head->fields].id = (uint8_t)id;
    head->first[id] = (uint8_t)++head->fields;
}

static void one(struct log *log, const struct http_head *head, uint64_t bytes, bool complete)
{
    struct http_receipt receipt = {.head = head, .status = 200, .body_bytes = bytes};

    log_end(log_begin(log, -1, &receipt, NULL), bytes, complete);
}

/* --- Formats ---------------------------------------------------------------------------------- */

static void test_combined(void **state)
{
    char buf[PIPE_BUF * 2], rest[PIPE_BUF];
    struct http_head head;
    struct log *log;
    int day, year, hour, minute, second, n = 0;
    char month[4];

    (void)state;
    unlink(path);
    assert_int_equal(log_open(&log, LOG_COMBINED, path), 0);
    head_make(&head, "/a\"b\\c\n\x80");
    head_add(&head, FIELD_USER_AGENT, slice("cu\"rl"));
    one(log, &head, 42, true);
    log_close(log);
    contents(path, buf, sizeof(buf));
    assert_int_equal(sscanf(buf, "- - - [%2d/%3s/%4d:%2d:%2d:%2d +0000] %n", &day, month, &year,
                            &hour, &minute, &second, &n), 6);
    snprintf(rest, sizeof(rest), "%s", buf + n);
    assert_string_equal(rest, "\"GET /a\\x22b\\x5cc\\x0a\\x80 HTTP/1.1\" 200 42 \"-\" "
                              "\"cu\\x22rl\"\n");
}

static void test_json(void **state)
{
    char buf[PIPE_BUF * 2];
    struct http_head head;
    struct log *log;

    (void)state;
    unlink(path);
    assert_int_equal(log_open(&log, LOG_JSON, path), 0);
    head_make(&head, "/\x01\"\\\xff");
    head_add(&head, FIELD_REFERER, slice("http://x/"));
    one(log, &head, 7, false);
    log_close(log);
    contents(path, buf, sizeof(buf));
    assert_non_null(strstr(buf, "{\"time\":\"2"));
    assert_non_null(strstr(buf, "Z\",\"peer\":\"-\",\"method\":\"GET\","
                                "\"target\":\"/\\u0001\\u0022\\u005c\\u00ff\",\"status\":200,"
                                "\"bytes\":7,\"complete\":false,\"referer\":\"http://x/\","
                                "\"agent\":\"\"}\n"));
}

/* After a refusal the head is almost empty. */
static void test_not_understood(void **state)
{
    char buf[PIPE_BUF * 2];
    struct http_head head;
    struct log *log;

    (void)state;
    unlink(path);
    memset(&head, 0, sizeof(head));
    assert_int_equal(log_open(&log, LOG_COMBINED, path), 0);
    one(log, &head, 0, true);
    log_close(log);
    contents(path, buf, sizeof(buf));
    assert_non_null(strstr(buf, "] \"-\" 200 0 \"-\" \"-\"\n"));
}

static void test_long_values(void **state)
{
    static const struct probe_stamps stamps = {1ull << 63, 1, 0}; /* differences of 20 digits */
    static char huge[HEAD_BYTES_MAX], site[200];
    struct http_head head;
    struct http_receipt receipt = {.head = &head, .status = 200};
    char buf[PIPE_BUF * 4];
    struct log *log;

    (void)state;
    memset(huge, '\x80', sizeof(huge)); /* the widest escape */
    memset(site, 'x', sizeof(site) - 1);
    for (enum log_format format = LOG_COMBINED; format <= LOG_VHOST; format++) {
        unlink(path);
        assert_int_equal(log_open(&log, format, path), 0);
        log_site(log, site);
        head_make(&head, "");
        head.target = head.method_text = (struct slice){huge, sizeof(huge)};
        head_add(&head, FIELD_USER_AGENT, head.target);
        head_add(&head, FIELD_REFERER, head.target);
        log_end(log_begin(log, -1, &receipt, &stamps), UINT64_MAX, false);
        log_close(log);
        assert_in_range(contents(path, buf, sizeof(buf)), 3000, PIPE_BUF);
        assert_true(strchr(buf, '\n') == buf + strlen(buf) - 1);
        assert_non_null(strstr(buf, "...")); /* the cut shows */
    }
}

static void test_off(void **state)
{
    struct http_receipt receipt = {.head = NULL};

    (void)state;
    assert_null(log_begin(NULL, -1, &receipt, NULL));
    log_end(NULL, 0, true);
}

/* --- When writing fails ------------------------------------------------------------------------
 * */

static int pipe_fd[2], real_stderr;

static void capture(void)
{
    assert_int_equal(pipe(pipe_fd), 0);
    real_stderr = dup(STDERR_FILENO);
    dup2(pipe_fd[1], STDERR_FILENO);
    close(pipe_fd[1]);
}

static void captured(char *buf, size_t cap)
{
    ssize_t n;

    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    n = read(pipe_fd[0], buf, cap - 1);
    close(pipe_fd[0]);
    buf[n > 0 ? n : 0] = 0;
}

static void test_full_disk(void **state)
{
    char said[1024];
    const char *first;
    struct http_head head;
    struct log *log;

    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(log_open(&log, LOG_COMBINED, "/dev/full"), 0);
    head_make(&head, "/");
    capture();
    for (int i = 0; i < 10; i++)
        one(log, &head, 1, true);
    captured(said, sizeof(said));
    log_close(log);
    first = strstr(said, "cannot write the log: the disk is full");
    assert_non_null(first);
    assert_null(strstr(first + 1, "cannot write")); /* once */
}

/* A limit on the file's size cuts a line in half; the next line begins on a line of its own. */
static void test_torn_line(void **state)
{
    char buf[PIPE_BUF * 4], said[1024];
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct rlimit limit, before;
    struct http_head head;
    struct log *log;
    size_t whole;

    (void)state;
    unlink(path);
    sigaction(SIGXFSZ, &ignore, NULL);
    assert_int_equal(log_open(&log, LOG_COMBINED, path), 0);
    head_make(&head, "/torn");
    one(log, &head, 1, true);
    whole = contents(path, buf, sizeof(buf));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = whole + 10;
    capture();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    one(log, &head, 1, true);
    one(log, &head, 1, true);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    one(log, &head, 1, true);
    captured(said, sizeof(said));
    log_close(log);
    assert_int_equal(contents(path, buf, sizeof(buf)), whole + 10 + 1 + whole);
    assert_int_equal(buf[whole + 10], '\n');
    assert_memory_equal(buf + whole + 11, "- - - [", 7);
    assert_non_null(strstr(said, "cannot write the log"));
    assert_non_null(strstr(said, "can be written again"));
}

static void test_bad_path(void **state)
{
    struct log *log = NULL;

    (void)state;
    assert_int_equal(log_open(&log, LOG_JSON, "/nonexistent/log"), -ENOENT);
    assert_int_equal(log_open(&log, LOG_JSON, folder), -EISDIR);
    assert_null(log);
}

static void test_reopen(void **state)
{
    char buf[PIPE_BUF * 2];
    struct http_head head;
    struct log *log;

    (void)state;
    unlink(path);
    assert_int_equal(log_open(&log, LOG_COMBINED, path), 0);
    head_make(&head, "/first");
    one(log, &head, 1, true);
    assert_int_equal(rename(path, moved), 0);
    head_make(&head, "/second");
    one(log, &head, 1, true); /* still the old file: nothing is lost between rename and signal */
    assert_int_equal(log_reopen(log), 0);
    head_make(&head, "/third");
    one(log, &head, 1, true);
    contents(moved, buf, sizeof(buf));
    assert_non_null(strstr(buf, "/first"));
    assert_non_null(strstr(buf, "/second"));
    contents(path, buf, sizeof(buf));
    assert_null(strstr(buf, "/second"));
    assert_non_null(strstr(buf, "/third"));
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0); /* it cannot be opened now: the old file stays in use */
    assert_int_equal(log_reopen(log), -EISDIR);
    assert_int_equal(rmdir(path), 0);
    one(log, &head, 1, true);
    log_close(log);
}

/* --- Processes -------------------------------------------------------------------------------- */

/* A child that writes lines when it is asked to, and its output on stderr. */
struct scribe {
    pid_t pid;
    int ask, done, words;
};

static struct scribe scribe_start(struct log *log)
{
    struct http_head head;
    int ask[2], done[2], words[2];
    pid_t pid;
    char c;

    assert_int_equal(pipe(ask) | pipe(done) | pipe(words), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(words[1], STDERR_FILENO);
        close(ask[1]); /* otherwise it would never see the end */
        head_make(&head, "/child");
        while (read(ask[0], &c, 1) == 1) {
            one(log, &head, 1, true);
            if (write(done[1], &c, 1) != 1)
                break;
        }
        _exit(0);
    }
    close(ask[0]);
    close(done[1]);
    close(words[1]);
    return (struct scribe){pid, ask[1], done[0], words[0]};
}

static void scribe_line(struct scribe *s)
{
    char c = 'x';
    assert_int_equal(write(s->ask, &c, 1), 1);
    assert_int_equal(read(s->done, &c, 1), 1);
}

/* End the child and read its output. */
static void scribe_end(struct scribe *s, char *buf, size_t cap)
{
    size_t len = 0;
    ssize_t n;
    close(s->ask);
    while ((n = read(s->words, buf + len, cap - 1 - len)) > 0)
        len += (size_t)n;
    buf[len] = 0;
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
    close(s->done);
    close(s->words);
}

/* One process reopens the log: the others follow before their next line. */
static void test_reopen_reaches_processes(void **state)
{
    char buf[PIPE_BUF];
    struct scribe child;
    struct log *log;
    (void)state;
    unlink(path);
    assert_int_equal(log_open(&log, LOG_COMBINED, path), 0);
    child = scribe_start(log);
    scribe_line(&child);
    assert_int_equal(rename(path, moved), 0);
    scribe_line(&child);
    assert_int_equal(log_reopen(log), 0);
    scribe_line(&child);
    scribe_line(&child);
    scribe_end(&child, buf, sizeof(buf));
    log_close(log);
    assert_int_equal(contents(moved, buf, sizeof(buf)), contents(path, buf, sizeof(buf)));
    assert_non_null(strstr(strstr(buf, "/child") + 1, "/child")); /* two in each */
}

/* Two processes that fail to write complain once between them. */
static void test_processes_complain_once(void **state)
{
    char said[2][PIPE_BUF];
    struct scribe child[2];
    struct log *log;
    (void)state;
    if (access("/dev/full", W_OK) < 0)
        skip();
    assert_int_equal(log_open(&log, LOG_COMBINED, "/dev/full"), 0);
    for (int i = 0; i < 2; i++)
        child[i] = scribe_start(log);
    for (int i = 0; i < 4; i++)
        scribe_line(&child[i % 2]);
    scribe_end(&child[1], said[1], sizeof(said[1])); /* first: it holds the other's pipe open */
    scribe_end(&child[0], said[0], sizeof(said[0]));
    assert_non_null(strstr(said[0], "cannot write the log"));
    assert_string_equal(said[1], "");
    log_close(log);
}

/* --- Threads -----------------------------------------------------------------------------------
 * */

enum { THREADS = 4, LINES = 200 };
static struct log *shared;

static void *write_lines(void *arg)
{
    struct http_head head;

    head_make(&head, arg);
    for (int i = 0; i < LINES; i++) {
        one(shared, &head, (uint64_t)i, true);
        if (i % 50 == 0)
            log_reopen(shared);
    }
    return NULL;
}

static void test_threads(void **state)
{
    static char buf[THREADS * LINES * 128];
    char names[THREADS][32];
    pthread_t thread[THREADS];
    unsigned lines = 0;

    (void)state;
    unlink(path);
    assert_int_equal(log_open(&shared, LOG_COMBINED, path), 0);
    for (int i = 0; i < THREADS; i++) {
        snprintf(names[i], sizeof(names[i]), "/thread-%d", i);
        assert_int_equal(pthread_create(&thread[i], NULL, write_lines, names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    log_close(shared);
    contents(path, buf, sizeof(buf));
    for (char *line = buf, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        *end = 0;
        assert_memory_equal(line, "- - - [", 7);
        assert_string_equal(end - 8, " \"-\" \"-\"");
    }
    assert_int_equal(lines, THREADS * LINES);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_combined),   cmocka_unit_test(test_json),
        cmocka_unit_test(test_not_understood), cmocka_unit_test(test_long_values),
        cmocka_unit_test(test_off),        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_torn_line),  cmocka_unit_test(test_bad_path),
        cmocka_unit_test(test_reopen),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_reopen_reaches_processes),
        cmocka_unit_test(test_processes_complain_once),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
