/* SPDX-License-Identifier: MIT */
/* say.c - unit tests of base/say.c and base/escape.c: whole lines, no bytes that control a
 * terminal, escapes that any reader of JSON or logs understands. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../base/escape.h"
#include "../../base/say.h"

static int pipe_fd[2], real_stderr;

static void capture(void)
{
    assert_int_equal(pipe(pipe_fd), 0);
    real_stderr = dup(STDERR_FILENO);
    assert_true(real_stderr >= 0);
    assert_true(dup2(pipe_fd[1], STDERR_FILENO) >= 0);
    close(pipe_fd[1]);
}

/* The text written since. */
static size_t captured(char *buf, size_t cap)
{
    size_t len = 0;
    ssize_t n;

    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    while (len < cap - 1 && (n = read(pipe_fd[0], buf + len, cap - 1 - len)) > 0)
        len += (size_t)n;
    close(pipe_fd[0]);
    buf[len] = 0;
    return len;
}

static void test_lines(void **state)
{
    char buf[4096];

    (void)state;
    capture();
    errno = EBADF;
    say("port %u", 80u);
    assert_int_equal(errno, EBADF); /* %m of a later message is still right */
    say_quiet(true);
    say("unheard");
    say_error("heard");
    say_quiet(false);
    say("name '%s'", "a\nb\x1b[31m\x7f");
    say("\xc2\x9b" "31m \xc2\x80\xc2\x9f \xc2\xa0 \xc2");
    captured(buf, sizeof(buf));
    assert_string_equal(buf, "rung: port 80\nrung: heard\nrung: name 'a?b?[31m?'\n"
                             "rung: ??31m ???? \xc2\xa0 \xc2\n");
}

static void test_long_line(void **state)
{
    char text[2 * SAY_LINE_BYTES], buf[2 * SAY_LINE_BYTES];
    size_t len;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    capture();
    say("%s", text);
    len = captured(buf, sizeof(buf));
    assert_true(len <= SAY_LINE_BYTES);
    assert_true(len > SAY_LINE_BYTES - 8);
    assert_int_equal(buf[len - 1], '\n');
}

static void test_why(void **state)
{
    (void)state;
    assert_string_equal(say_why(EACCES), "permission denied");
    assert_string_equal(say_why(-EACCES), "permission denied");
    assert_string_equal(say_why(EXDEV), "Invalid cross-device link");
    assert_string_equal(say_why(99999), "unknown error");
}

static void quoted(char *buf, size_t cap, const char *bytes, size_t n)
{
    escape_quoted(buf, cap, (struct slice){bytes, n});
}

static void test_every_byte(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char byte = (char)c, got[16], want[16];
        bool plain = c >= 0x20 && c <= 0x7e && c != '"' && c != '\\';

        snprintf(want, sizeof(want), plain ? "%c" : "\\x%02x", c);
        quoted(got, sizeof(got), &byte, 1);
        assert_string_equal(got, want);
        snprintf(want, sizeof(want), plain ? "%c" : "\\u00%02x", c);
        escape_json(got, sizeof(got), (struct slice){&byte, 1});
        assert_string_equal(got, want);
    }
}

/* Text that fits is whole, longer text ends with dots, and nothing is written beyond the end: both
 * sides of the limit. */
static void test_cut(void **state)
{
    char buf[24];

    (void)state;
    quoted(buf, 11, "0123456789", 10);
    assert_string_equal(buf, "0123456789");
    quoted(buf, 10, "0123456789", 10);
    assert_string_equal(buf, "012345...");
    quoted(buf, 10, "01234\"", 6);
    assert_string_equal(buf, "01234\\x22");
    quoted(buf, 10, "012345\"", 7);
    assert_string_equal(buf, "012345...");
    quoted(buf, 10, "01234\"6", 7); /* never half an escape */
    assert_string_equal(buf, "01234...");
    quoted(buf, 10, "", 0);
    assert_string_equal(buf, "");
    quoted(buf, 10, NULL, 0);
    assert_string_equal(buf, "");
    for (size_t cap = 8; cap < 20; cap++) {
        memset(buf, '#', sizeof(buf));
        quoted(buf, cap, "a\"b\"c\"d\"e\"f\"", 12);
        assert_true(strlen(buf) < cap);
        assert_int_equal(buf[cap], '#');
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),     cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_why),       cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
