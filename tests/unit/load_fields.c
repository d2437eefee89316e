/* SPDX-License-Identifier: MIT */
/* rung load and HTTP/2: a request's text becomes fields, an answer's fields become text; and bytes
 * that wait for a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../tools/load/h2_fields.c"

#define TEXT(literal) ((struct slice){literal, sizeof(literal) - 1})

static struct h2_field field[H2_FIELDS_MAX];

static void is(size_t at, const char *name, const char *value)
{
    assert_int_equal(field[at].name.len, strlen(name));
    assert_memory_equal(field[at].name.ptr, name, strlen(name));
    assert_int_equal(field[at].value.len, strlen(value));
    assert_memory_equal(field[at].value.ptr, value, strlen(value));
}

/* shows U63 */
static void a_request_becomes_fields(void **state)
{
    (void)state;
    assert_int_equal(h2_fields_split(TEXT("GET /a?b=c:d HTTP/1.1\r\nHost: h:1\r\nX: y\r\n\r\n"),
                                     true, field), 5);
    is(0, ":method", "GET");
    is(1, ":scheme", "https");
    is(2, ":authority", "h:1");
    is(3, ":path", "/a?b=c:d");
    is(4, "X", "y");
}

static void the_order_of_lines_is_kept_without_those_of_http1(void **state)
{
    (void)state;
    assert_int_equal(h2_fields_split(TEXT("OPTIONS * HTTP/1.1\r\nA:1\r\nCONNECTION: close\r\n"
                                          "hOST: h\r\nB: \t2 3\t \r\nC:\r\n\r\nD: 4\r\n"), false,
                                     field), 7);
    is(0, ":method", "OPTIONS");
    is(1, ":scheme", "http");
    is(2, ":authority", "h");
    is(3, ":path", "*");
    is(4, "A", "1");
    is(5, "B", "2 3");
    is(6, "C", "");
}

static void as_many_fields_as_there_is_room_for(void **state)
{
    char text[4096] = "GET / HTTP/1.1\r\n";
    size_t n = strlen(text), lines = H2_FIELDS_MAX - 4;

    (void)state;
    for (size_t i = 0; i < lines; i++, n += 6)
        memcpy(text + n, "A: b\r\n", 6);
    memcpy(text + n, "\r\n", 2);
    assert_int_equal(h2_fields_split((struct slice){text, n + 2}, false, field), H2_FIELDS_MAX);
    memcpy(text + n, "A: b\r\n\r\n", 8);
    assert_int_equal(h2_fields_split((struct slice){text, n + 8}, false, field), H2_FIELDS_MAX);
}

static void fields_become_the_text_of_a_head(void **state)
{
    static const char expected[] = "HTTP/1.1 200 \r\na: b\r\nempty: \r\n";
    struct bytes text = {0};

    (void)state;
    assert_true(h2_fields_join(&text, (struct h2_field){TEXT(":status"), TEXT("200")}));
    assert_true(h2_fields_join(&text, (struct h2_field){TEXT("a"), TEXT("b")}));
    assert_true(h2_fields_join(&text, (struct h2_field){TEXT("empty"), TEXT("")}));
    assert_int_equal(bytes_left(&text), sizeof(expected) - 1);
    assert_memory_equal(text.ptr, expected, sizeof(expected) - 1);
    bytes_free(&text);
}

static void a_head_has_a_bound(void **state)
{
    static char value[H2_TEXT_BYTES_MAX];
    struct bytes text = {0};

    (void)state;
    memset(value, 'x', sizeof(value));
    assert_false(h2_fields_join(&text, (struct h2_field){TEXT("a"), {value, sizeof(value)}}));
    assert_true(h2_fields_join(&text, (struct h2_field){TEXT("a"), {value, sizeof(value) - 1}}));
    assert_false(h2_fields_join(&text, (struct h2_field){TEXT("b"), TEXT("c")}));
    bytes_free(&text);
}

static void fields_of_http1_alone_are_known(void **state)
{
    static const char *const forbidden[] = {"TE: trailers", "upgrade: x", "Keep-Alive: 1",
                                            "PROXY-CONNECTION: a", ":path: /"};
    static const char *const fine[] = {"T: e", "Accept: a", "TEX: 1",
                                       "Upgrade-Insecure-Requests: 1"};

    (void)state;
    for (unsigned i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
        assert_true(h2_fields_forbid(forbidden[i]));
    for (unsigned i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        assert_false(h2_fields_forbid(fine[i]));
}

/* Bytes are added and taken in pieces of all sizes, and come out as they went in. */
static void bytes_keep_their_order(void **state)
{
    struct bytes b = {0};
    unsigned in = 0, out = 0;

    (void)state;
    for (unsigned step = 1; step < 3000; step++) {
        for (unsigned i = 0; i < step % 97; i++, in++) {
            char byte = (char)(in * 7);

            assert_true(bytes_add(&b, &byte, 1));
        }
        for (unsigned i = 0; i < step % 89 && bytes_left(&b); i++, out++)
            assert_int_equal(b.ptr[b.at++], (char)(out * 7));
        assert_int_equal(bytes_left(&b), in - out);
    }
    for (; bytes_left(&b); out++)
        assert_int_equal(b.ptr[b.at++], (char)(out * 7));
    assert_int_equal(in, out);
    bytes_free(&b);
    assert_null(b.ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_becomes_fields),
        cmocka_unit_test(the_order_of_lines_is_kept_without_those_of_http1),
        cmocka_unit_test(as_many_fields_as_there_is_room_for),
        cmocka_unit_test(fields_become_the_text_of_a_head),
        cmocka_unit_test(a_head_has_a_bound),
        cmocka_unit_test(fields_of_http1_alone_are_known),
        cmocka_unit_test(bytes_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
