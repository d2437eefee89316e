/* SPDX-License-Identifier: MIT */
/* types.c - content types by name: our own rows, the database's, case, charset, odd names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../core/types.h"

#define UNKNOWN "application/octet-stream"
#define TEXT "text/plain; charset=utf-8"

struct row {
    const char *path, *type;
};

static const struct row rows[] = {
    /* the files of a usual site */
    {"/index.html", "text/html; charset=utf-8"},
    {"/a/b.htm", "text/html; charset=utf-8"},
    {"/s.css", "text/css; charset=utf-8"},
    {"/s.js", "text/javascript; charset=utf-8"},
    {"/s.mjs", "text/javascript; charset=utf-8"},
    {"/d.json", "application/json; charset=utf-8"},
    {"/m.webmanifest", "application/manifest+json; charset=utf-8"},
    {"/f.xml", "application/xml; charset=utf-8"},
    {"/i.svg", "image/svg+xml; charset=utf-8"},
    {"/i.png", "image/png"},
    {"/i.jpg", "image/jpeg"},
    {"/i.jpeg", "image/jpeg"},
    {"/i.gif", "image/gif"},
    {"/i.webp", "image/webp"},
    {"/i.avif", "image/avif"},
    {"/favicon.ico", "image/vnd.microsoft.icon"},
    {"/f.woff2", "font/woff2"},
    {"/m.wasm", "application/wasm"},
    {"/v.mp4", "video/mp4"},
    {"/d.pdf", "application/pdf"},
    {"/t.txt", TEXT},
    {"/README.md", "text/markdown; charset=utf-8"},
    /* text that browsers show, not download */
    {"/c.toml", TEXT},
    {"/c.yaml", TEXT},
    {"/c.yml", TEXT},
    {"/p.ts", TEXT},
    {"/p.tsx", TEXT},
    {"/p.py", TEXT},
    {"/p.c", TEXT},
    {"/p.sql", TEXT},
    {"/d.jsonl", TEXT},
    {"/go.mod", TEXT},
    {"/Cargo.lock", TEXT},
    {"/nginx.service", TEXT},
    {"/p.cjs", "text/javascript; charset=utf-8"},
    {"/n.ipynb", "application/json; charset=utf-8"},
    {"/Gemfile", TEXT},
    /* only in Debian's database */
    {"/t.odt", "application/vnd.oasis.opendocument.text"},
    {"/t.epub", "application/epub+zip"},
    {"/c.ics", "text/calendar; charset=utf-8"},
    {"/t.csv", "text/csv; charset=utf-8"},
    {"/f.atom", "application/atom+xml; charset=utf-8"},
    {"/a.tar", "application/x-tar"},
    {"/a.zip", "application/zip"},
    /* case, several dots */
    {"/I.PNG", "image/png"},
    {"/I.PnG", "image/png"},
    {"/INDEX.HTML", "text/html; charset=utf-8"},
    {"/a.tar.gz", "application/gzip"},
    {"/jquery.min.js", "text/javascript; charset=utf-8"},
    {"/dir.html/file", UNKNOWN},
    {"/dir.html/file.png", "image/png"},
    /* whole names */
    {"/README", TEXT},
    {"/src/Makefile", TEXT},
    {"/LICENSE", TEXT},
    {"/readme.xyzzy", UNKNOWN},
    {"/readmex", UNKNOWN},
    /* unknown */
    {"/", UNKNOWN},
    {"/file", UNKNOWN},
    {"/file.", UNKNOWN},
    {"/.png", UNKNOWN},
    {"/.", UNKNOWN},
    {"/a.xyzzy", UNKNOWN},
    {"/a.pn", UNKNOWN},
    {"/a.pngx", UNKNOWN},
    {"/a.p ng", UNKNOWN},
    {"/a.\xff\xfe", UNKNOWN},
    {"/a.htmlhtmlhtmlhtml", UNKNOWN},
    {"/a.sarif-external-properties", "application/sarif-external-properties+json; charset=utf-8"},
    {"/a.htmlhtmlhtmlhtmlhtmlhtmlhtmlhtm", UNKNOWN}, /* 31 bytes: the longest that is looked up */
    {"/a.htmlhtmlhtmlhtmlhtmlhtmlhtmlhtml", UNKNOWN},
    {"html", UNKNOWN},
    {"x.html", "text/html; charset=utf-8"},
};

/* The name is copied so that its end is the end of readable memory. */
static const char *type_at_edge(const char *path, size_t n)
{
    char *copy = malloc(n ? n : 1);
    const char *type;

    assert_non_null(copy);
    memcpy(copy, path, n);
    type = type_of(copy, n);
    free(copy);
    return type;
}

/* shows K22 */
static void types_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *type = type_at_edge(rows[i].path, strlen(rows[i].path));

        if (strcmp(type, rows[i].type) != 0)
            fail_msg("%s: %s instead of %s", rows[i].path, type, rows[i].type);
    }
    assert_string_equal(type_at_edge("", 0), UNKNOWN);
    assert_string_equal(type_at_edge("/a.png\0.html", 12), "text/html; charset=utf-8");
    assert_string_equal(type_at_edge("/a.htm\0l", 8), UNKNOWN);
}

/* Every one of our own rows is found: the table is sorted as the search requires. */
static void own_rows_are_found(void **state)
{
    static const struct row own[] = {
#define X(extension, type) {"/x." extension, type},
#define NAME(name, type) {"/" name, type},
#include "../../core/mime.def"
#undef X
#undef NAME
    };

    (void)state;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        const char *type = type_of(own[i].path, strlen(own[i].path));
        size_t n = strlen(own[i].type);

        if (strncmp(type, own[i].type, n) != 0 || (type[n] != '\0' && type[n] != ';'))
            fail_msg("%s: %s instead of %s", own[i].path, type, own[i].type);
    }
}

static void what_compresses(void **state)
{
    (void)state;
    assert_true(type_compresses(type_of("/a.html", 7)));
    assert_true(type_compresses(type_of("/a.svg", 6)));
    assert_true(type_compresses(type_of("/a.wasm", 7)));
    assert_true(type_compresses(type_of("/a.json", 7)));
    assert_false(type_compresses(type_of("/a.png", 6)));
    assert_false(type_compresses(type_of("/a.gz", 5)));
    assert_false(type_compresses(type_of("/a.zip", 6)));
    assert_false(type_compresses(type_of("/a.mp4", 6)));
    assert_false(type_compresses(type_of("/a.tar", 6)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_by_name),
        cmocka_unit_test(own_rows_are_found),
        cmocka_unit_test(what_compresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
