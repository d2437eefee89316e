/* SPDX-License-Identifier: MIT */
/* log_times.c - unit tests of server/log.c: how long an answer took, in each format that says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../server/inside.h"

static char buf[8192];

/* A line of each of these answers in that format; NULL: their times are not known. */
static void write_lines(enum log_format format, const struct probe_stamps *const stamps[])
{
    struct http_head head = {.method_text = {"GET", 3}, .target = {"/a", 2}, .minor = 1};
    struct http_receipt receipt = {.head = &head, .status = 200};
    char path[] = "/tmp/rung-log-XXXXXX";
    int fd = mkstemp(path);
    struct log *log;
    ssize_t n;

    assert_true(fd >= 0);
    assert_int_equal(log_open(&log, format, path), 0);
    assert_int_equal(probe_is_watched(), format != LOG_COMBINED); /* the server takes times */
    for (unsigned i = 0; i < 3; i++)
        log_end(log_begin(log, -1, &receipt, stamps[i]), i + 1, true);
    log_close(log);
    assert_false(probe_is_watched());
    n = read(fd, buf, sizeof(buf) - 1);
    assert_true(n > 0);
    buf[n] = '\0';
    close(fd);
    unlink(path);
}

static bool has(const char *text)
{
    return strstr(buf, text) != NULL;
}

/* One that began a second ago; one of which the log knows nothing. */
static const struct probe_stamps *const *begun_a_second_ago(void)
{
    static struct probe_stamps stamps;
    static const struct probe_stamps *all[] = {&stamps, NULL, &stamps};

    stamps = (struct probe_stamps){.parsed = clock_ns() - 1000000000};
    return all;
}

static void test_combined(void **state)
{
    (void)state;
    write_lines(LOG_COMBINED, begun_a_second_ago());
    assert_true(has("HTTP/1.1\" 200 1 \"-\" \"-\"\n"));
}

static void test_timed(void **state)
{
    unsigned seconds, us;
    int n = 0;

    (void)state;
    write_lines(LOG_TIMED, begun_a_second_ago());
    assert_int_equal(sscanf(strstr(buf, "HTTP/1.1\""), "HTTP/1.1\" 200 1 \"-\" \"-\" %u.%6u%n",
                            &seconds, &us, &n), 2);
    assert_in_range(seconds, 1, 60);
    assert_int_equal(strstr(buf, "HTTP/1.1\"")[n], '\n');
    assert_true(has("HTTP/1.1\" 200 2 \"-\" \"-\"\n"));
}

static void test_json(void **state)
{
    unsigned long us;
    int n = 0;

    (void)state;
    write_lines(LOG_JSON, begun_a_second_ago());
    assert_int_equal(sscanf(strstr(buf, "\"bytes\":1"),
                            "\"bytes\":1,\"complete\":true,\"took_us\":%lu,\"referer\"%n",
                            &us, &n), 1);
    assert_true(n > 0);
    assert_in_range(us, 1000000, 60000000);
    assert_true(has("\"bytes\":2,\"complete\":true,\"referer\":"));
    assert_false(has("took_ns"));
}

/* Each time since the stage before it, null for a stage that was not reached. */
static void test_stages(void **state)
{
    static const struct probe_stamps all = {1000, 1200, 1207}, refused = {3000, 0, 0};
    static const struct probe_stamps *const stamps[] = {&all, &refused, NULL};

    (void)state;
    write_lines(LOG_STAGES, stamps);
    assert_true(has("\"bytes\":1,\"complete\":true,\"parsed_ns\":1000,\"took_ns\":"
                    "{\"found\":200,\"compressed\":7,\"done\":"));
    assert_true(has("\"bytes\":2,\"complete\":true,\"parsed_ns\":3000,\"took_ns\":"
                    "{\"found\":null,\"compressed\":null,\"done\":"));
    assert_true(has("},\"referer\":"));
    assert_true(has("\"bytes\":3,\"complete\":true,\"referer\":"));
    assert_false(has("took_us"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_combined),
        cmocka_unit_test(test_timed),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_stages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
