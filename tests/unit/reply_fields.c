/* SPDX-License-Identifier: MIT */
/* reply_fields.c - fields of a head that the host writes: in every answer, once, and with as many
 * bytes as possible.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "world.h"

#define HOST " HTTP/1.1\r\nHost: h\r\n"
#define NAME "X-Host: "

static struct fake *fake;
static struct drive drive;
static size_t bytes; /* of the field, with its name and CRLF */
static unsigned asked, status_asked;

static size_t fields(void *site, const struct conn *conn, unsigned status, char *out)
{
    assert_ptr_equal(site, fake->host.conn.ctx);
    assert_ptr_equal(conn, &drive.conn);
    assert_true(status >= 200 && status < 600);
    status_asked = status;
    asked++;
    memset(out, 'x', bytes);
    if (bytes) {
        memcpy(out, NAME, sizeof(NAME) - 1);
        memcpy(out + bytes - 2, "\r\n", 2);
    }
    return bytes;
}

static const char *answer(const char *request, size_t n)
{
    drive_open(&drive, fake);
    drive.out[0] = '\0';
    asked = 0;
    must(drive_feed(&drive, request, n) == n);
    return drive.out;
}

static void finish(void)
{
    drive_end(&drive);
    drive_close(&drive);
}

/* shows K21 */
static void every_answer_has_them(void **state)
{
    static const char *const requests[] = {
        "GET /p26" HOST "\r\n",
        "HEAD /p26" HOST "\r\n",
        "GET /p26 HTTP/1.0\r\n\r\n",
        "GET /p26" HOST "Range: bytes=3-5\r\n\r\n",
        "GET /p26" HOST "Range: bytes=1-2,5-6\r\n\r\n",
        "GET /p26" HOST "Range: bytes=26-\r\n\r\n",
        "GET /p26" HOST "If-None-Match: *\r\n\r\n",
        "GET /p26" HOST "If-Match: \"x\"\r\n\r\n",
        "GET /m2" HOST "\r\n",
        "GET /dir" HOST "\r\n",
        "GET /none" HOST "\r\n",
        "OPTIONS *" HOST "\r\n",
        "DELETE /p26" HOST "\r\n",
        "GET /%zz" HOST "\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        const char *got = answer(requests[i], strlen(requests[i])), *end = strstr(got, "\r\n\r\n");
        const char *field = strstr(got, "\r\n" NAME);

        assert_int_equal(asked, 1);
        assert_non_null(end);
        assert_int_equal(field != NULL, bytes != 0);
        if (field) {
            assert_true(field < end);
            assert_int_equal(strcspn(field + 2, "\r"), bytes - 2);
            assert_null(strstr(field + 3, NAME));
        }
        finish();
    }
}

/* A Location as long as possible: it fits, or gives 414, and the field is there in either case. */
static void with_the_longest_location(void **state)
{
    static char request[TARGET_BYTES_MAX + 64];
    unsigned moved = 0, refused = 0;

    (void)state;
    for (size_t query = 50; query < 550; query++) {
        size_t path = PATH_BYTES_MAX - 100, n = (size_t)snprintf(request, sizeof(request), "GET /");

        memset(request + n, '!', path - 1);
        n += path - 1;
        request[n++] = '?';
        memset(request + n, '"', query);
        n += query;
        n += (size_t)snprintf(request + n, sizeof(request) - n, HOST "\r\n");
        assert_non_null(strstr(answer(request, n), "\r\n" NAME));
        assert_int_equal(status_asked, world.status);
        moved += world.status == 301;
        refused += world.status == 414;
        finish();
    }
    assert_int_equal(moved + refused, 500);
    assert_true(moved && refused);
}

static int setup(void **state)
{
    (void)state;
    fake = world_open();
    fake->host.fields = fields;
    bytes = HOST_FIELDS_BYTES_MAX;
    return 0;
}

static int setup_none(void **state)
{
    setup(state);
    bytes = 0;
    return 0;
}

/* A ready answer has no room for the fields, so it is not sent. */
static int setup_whole(void **state)
{
    setup(state);
    world.ready = world.whole = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_close(fake);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_answer_has_them, setup, teardown),
        cmocka_unit_test_setup_teardown(every_answer_has_them, setup_none, teardown),
        cmocka_unit_test_setup_teardown(every_answer_has_them, setup_whole, teardown),
        cmocka_unit_test_setup_teardown(with_the_longest_location, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
