/* SPDX-License-Identifier: MIT */
/* parse.c - fuzz http_parse_request() and http_parse_response(): the answer for a prefix is
 * "more" or the answer for the whole, and every slice is within the bytes. */
/* shows N23 */
#include "../../core/http.h"
#include "fuzz.h"

static long parse(const char *bytes, size_t n, int method, struct http_head *head)
{
    if (method < 0)
        return http_parse_request(bytes, n, head);
    return http_parse_response(bytes, n, (enum http_method)method, head);
}

static void inside(struct slice s, const char *bytes, long n)
{
    if (s.ptr && s.len > 0)
        promise(s.ptr >= bytes && s.len <= (size_t)n && s.ptr + s.len <= bytes + n);
}

static void check_head(const struct http_head *h, const char *bytes, long n)
{
    unsigned i, of_id[HTTP_FIELDS] = {0};

    promise(n <= HEAD_BYTES_MAX && h->fields <= HEAD_FIELDS_MAX);
    promise(memcmp(bytes + n - 4, "\r\n\r\n", 4) == 0);
    inside(h->method_text, bytes, n);
    inside(h->target, bytes, n);
    inside(h->query, bytes, n);
    promise(h->target.len <= TARGET_BYTES_MAX && h->content_length <= INT64_MAX && h->minor <= 1);
    for (i = 0; i < h->fields; i++) {
        inside(h->field[i].name, bytes, n);
        inside(h->field[i].value, bytes, n);
        promise(h->field[i].name.len > 0 && h->field[i].id < HTTP_FIELDS);
        promise(h->field[i].value.len == 0 || !strchr(" \t", *h->field[i].value.ptr));
        promise(h->first[h->field[i].id] > 0 && h->first[h->field[i].id] <= i + 1);
        of_id[h->field[i].id]++;
    }
    for (i = 0; i < HTTP_FIELDS; i++)
        promise((h->repeated >> i & 1) == (of_id[i] > 1));
}

static void check(const char *bytes, size_t n, int method)
{
    struct http_head head, part;
    long whole = parse(bytes, n, method, &head), got, before = 0;
    size_t cut, step = n > 600 ? n / 300 : 1;
    char *copy;

    if (whole > 0)
        check_head(&head, bytes, whole);
    if (whole > 0 && method < 0 && !slice_is(head.method_text, "CONNECT"))
        promise(head.path.len > 0 && (*head.path.ptr == '/' || slice_is(head.path, "*")));
    for (cut = 0; cut < n; cut += step) {
        copy = hard_copy(bytes, cut);
        got = parse(copy, cut, method, &part);
        promise(got == 0 || got == whole);
        promise(before == 0 || got == before);
        promise(whole <= 0 || got == 0 || cut >= (size_t)whole);
        before = got;
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *copy = hard_copy(bytes, n);

    check(copy, n, -1);
    check(copy, n, n % 2 ? HTTP_GET : HTTP_HEAD);
    free(copy);
    return 0;
}
