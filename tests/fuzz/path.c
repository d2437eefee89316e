/* SPDX-License-Identifier: MIT */
/* path.c - fuzz path_decode(): a path that it accepts is absolute, normal, and its own encoding. */
#include "../../core/http.h"
#include "fuzz.h"

static void check_normal(const char *path, long n)
{
    long i, start = 1;

    promise(n >= 1 && n < PATH_BYTES_MAX && path[0] == '/');
    for (i = 1; i <= n; i++) {
        promise(i == n || path[i] != '\0');
        if (i < n && path[i] != '/')
            continue;
        promise(i > start || i == n); /* no empty component except the last */
        promise(!(i - start == 1 && path[start] == '.'));
        promise(!(i - start == 2 && path[start] == '.' && path[start + 1] == '.'));
        start = i + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *copy = hard_copy(bytes, n), *out = malloc(PATH_BYTES_MAX), *back = malloc(PATH_BYTES_MAX);
    struct slice raw = {copy, n};
    char *url;
    long len;
    size_t m;

    promise(out && back);
    len = path_decode(raw, out);
    if (len < 0) {
        promise(len == -400 || len == -404);
    } else {
        check_normal(out, len);
        promise((size_t)len <= n);
        url = malloc(3 * (size_t)len);
        promise(url);
        m = path_encode(url, out, (size_t)len);
        promise(m <= 3 * (size_t)len);
        raw.ptr = url;
        raw.len = m;
        promise(path_decode(raw, back) == len && memcmp(out, back, (size_t)len) == 0);
        free(url);
    }
    free(back);
    free(out);
    free(copy);
    return 0;
}
