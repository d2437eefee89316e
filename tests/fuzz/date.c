/* SPDX-License-Identifier: MIT */
/* date.c - fuzz HTTP dates: a date that can be read is written and read the same; any time can be
 * written. */
#include "../../core/http.h"
#include "fuzz.h"

static void check_written(int64_t unix_s, int64_t now_s, bool exact)
{
    char *text = malloc(HTTP_DATE_BYTES);
    struct slice s = {text, HTTP_DATE_BYTES};
    int64_t back;

    promise(text);
    http_date_write(text, unix_s);
    promise(http_date_read(s, now_s, &back));
    promise(!exact || back == unix_s);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    int64_t now_s, unix_s;
    struct slice s;
    char *copy;

    if (n < sizeof(now_s))
        return 0;
    memcpy(&now_s, bytes, sizeof(now_s));
    n -= sizeof(now_s);
    copy = hard_copy(bytes + sizeof(now_s), n);
    s.ptr = copy;
    s.len = n;
    check_written(now_s, 0, false);
    if (http_date_read(s, now_s, &unix_s) && unix_s < 253402300800) /* 9999-12-31 23:59:60 is not */
        check_written(unix_s, now_s, true);
    free(copy);
    return 0;
}
