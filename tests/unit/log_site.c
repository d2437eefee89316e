/* SPDX-License-Identifier: MIT */
/* log_site.c - unit tests of server/log.c: which formats name the site that answered, and two logs
 * that share a file.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../server/inside.h"

static char path[] = "/tmp/rung-log-XXXXXX", buf[PIPE_BUF * 2];

static void one(struct log *log, uint64_t bytes)
{
    struct http_head head = {.method_text = {"GET", 3}, .target = {"/", 1}, .minor = 1};
    struct http_receipt receipt = {.head = &head, .status = 200};

    log_end(log_begin(log, -1, &receipt, NULL), bytes, true);
}

/* Reads what was written, and empties the file. */
static void take(void)
{
    FILE *file = fopen(path, "r");
    size_t n;

    assert_non_null(file);
    n = fread(buf, 1, sizeof(buf) - 1, file);
    buf[n] = '\0';
    fclose(file);
    assert_int_equal(truncate(path, 0), 0);
}

/* 95 bytes are a name, and one more is cut; formats that do not say it are as they were. */
static void test_site(void **state)
{
    static const char *const before[] = {
        [LOG_COMBINED] = "- - - [", [LOG_TIMED] = "- - - [", [LOG_JSON] = "\",\"host\":\"",
        [LOG_STAGES] = "\",\"host\":\"", [LOG_VHOST] = ""};
    char name[97], want[160];
    struct log *log;

    (void)state;
    for (enum log_format format = LOG_COMBINED; format <= LOG_VHOST; format++)
        for (size_t n = 95; n <= 96; n++) {
            bool says = format == LOG_JSON || format == LOG_STAGES || format == LOG_VHOST;

            memset(name, 'n', n);
            name[n] = '\0';
            assert_int_equal(log_open(&log, format, path), 0);
            log_site(log, name);
            one(log, 1);
            log_close(log);
            take();
            if (n == 96)
                memcpy(name + 92, "...", 4);
            snprintf(want, sizeof(want), "%s%s%s", before[format], says ? name : "",
                     format == LOG_VHOST ? ":0 - - - [" : says ? "\",\"peer\":\"-\"" : "");
            assert_non_null(strstr(buf, want));
            assert_true(says || !strstr(buf, "nn"));
        }
}

/* Without a name vhost has one, because readers of that format need it, and JSON has no field. */
static void test_no_site(void **state)
{
    struct log *log, *other;

    (void)state;
    assert_int_equal(log_open(&log, LOG_VHOST, path), 0);
    assert_int_equal(log_open_with(&other, LOG_JSON, log), 0);
    one(log, 1);
    one(other, 1);
    log_close(other);
    one(log, 2); /* the file is still open */
    log_close(log);
    assert_false(probe_is_watched());
    take();
    assert_memory_equal(buf, "default:0 - - - [", 17);
    assert_memory_equal(strchr(buf, '\n') + 1, "{\"time\":\"", 9);
    assert_null(strstr(buf, "\"host\""));
    assert_non_null(strstr(buf, "200 2 \"-\""));
}

static int set_up(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_site),
        cmocka_unit_test(test_no_site),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
