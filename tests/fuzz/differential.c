/* SPDX-License-Identifier: MIT */
/* differential.c - the same bytes to http_parse_request() and to the naive parser: both accept
 * them with the same meaning, or both refuse.  A head refused before its end is refused with any
 * end. */
/* shows N23 */
#include "../../core/http.h"
#include "fuzz.h"
#include "naive.h"

static void compare(const char *bytes, const struct http_head *h, const struct naive *want)
{
    static const enum http_framing framing[] = {
        [NAIVE_NONE] = FRAMING_NONE,
        [NAIVE_LENGTH] = FRAMING_LENGTH,
        [NAIVE_CHUNKED] = FRAMING_CHUNKED,
    };

    promise(h->target.ptr == bytes + want->target_at && h->target.len == want->target_len);
    promise(h->fields == want->fields && h->minor == want->minor);
    promise(h->framing == framing[want->framing] && h->content_length == want->content_length);
    promise(h->keep_alive == want->keep_alive && h->expect_continue == want->expects);
    if (slice_is(h->method_text, "CONNECT"))
        return;
    promise(h->path.len == (want->path_len > 0 ? want->path_len : 1));
    promise((h->query.ptr != NULL) == want->query);
    promise(!want->query || h->query.ptr[-1] == '?');
    promise(!want->query || h->query.ptr + h->query.len == h->target.ptr + h->target.len);
}

/* An early refusal promises that no continuation helps: try some that would complete most
 * beginnings. */
static void check_hopeless(const char *bytes, size_t n)
{
    static const char *const ends[] = {
        "\r\n\r\n", "\n\r\n\r\n", "\n\r\n", "/ HTTP/1.0\r\n\r\n", " / HTTP/1.0\r\n\r\n",
        " HTTP/1.0\r\n\r\n", "HTTP/1.0\r\n\r\n", ".0\r\n\r\n", "0\r\n\r\n", ":\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n", "a:\r\n\r\n", "\r\nHost:\r\n\r\n", "\nHost:\r\n\r\n",
        "Host:\r\n\r\n", ":80 HTTP/1.0\r\n\r\n", "0 HTTP/1.0\r\n\r\n",
    };
    struct naive head;
    unsigned i;
    size_t len;
    char *text;

    for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        len = strlen(ends[i]);
        text = malloc(n + len);
        promise(text);
        memcpy(text, bytes, n);
        memcpy(text + n, ends[i], len);
        naive_parse(text, n + len, &head);
        promise(head.length <= 0 || (size_t)head.length <= n);
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *copy = hard_copy(bytes, n);
    struct http_head head;
    struct naive want;
    long got = http_parse_request(copy, n, &head);

    naive_parse(copy, n, &want);
    if (want.length > 0) {
        promise(got == want.length);
        compare(copy, &head, &want);
    } else if (want.length < 0) {
        promise(got < 0);
    } else {
        promise(got <= 0);
        if (got < 0)
            check_hopeless(copy, n);
    }
    free(copy);
    return 0;
}
