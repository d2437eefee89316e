/* SPDX-License-Identifier: MIT */
/* bench.c - the null engine's replay: every part does a whole exchange, again and again, and a
 * part that cannot be replayed reports it.
 */
#include "../../server/bench.h"
#include "turns.h"

enum { TIMES = 100 };

static char folder[] = "/tmp/rung-bench-XXXXXX";

static const struct bench_case *part_named(const char *name)
{
    unsigned count;
    const struct bench_case *part = bench_cases(&count);

    for (unsigned i = 0; i < count; i++)
        if (strcmp(part[i].name, name) == 0)
            return &part[i];
    return NULL;
}

static bool replays(struct bench *b, const char *name)
{
    const struct bench_case *part = part_named(name);

    assert_non_null(part);
    for (unsigned i = 0; i < TIMES; i++)
        part->once(b);
    return !bench_failed(b);
}

static void open_site(struct fixture *f)
{
    const struct site_options opt = {.root = folder, .rules.listing = true};
    const char *why;

    assert_int_equal(site_open(&f->s.srv.site, &opt, &why), 0);
}

static void every_script_replays(void **state)
{
    struct fixture f;
    struct bench *b;
    unsigned scripts = 0;

    (void)state;
    serving_fill(&f.s, &engine_null, &http_proto);
    begin(&f);
    assert_int_equal(bench_open(f.l, &b), 0);
    while (bench_script(b, scripts)) {
        assert_true(bench_bytes(b) > 0);
        assert_true(replays(b, "parse"));
        assert_true(replays(b, "machine"));
        assert_true(replays(b, "reply"));
        scripts++;
    }
    assert_int_equal(scripts, 2);
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_ANSWERS), scripts * TIMES);
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_COMPLETE), scripts * TIMES);
    bench_close(b);
    end(&f);
}

static void file_is_the_folders_page(void **state)
{
    char path[64];
    struct fixture f;
    struct bench *b;
    FILE *page;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/index.html", folder);
    serving_fill(&f.s, &engine_null, &http_proto);
    open_site(&f);
    begin(&f);
    assert_int_equal(bench_open(f.l, &b), 0);
    assert_non_null(bench_script(b, 0));
    page = fopen(path, "w");
    assert_non_null(page);
    assert_true(fputs("page", page) >= 0);
    assert_int_equal(fclose(page), 0);
    assert_true(replays(b, "file"));
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_BODY_BYTES), 4 * TIMES);
    assert_int_equal(unlink(path), 0);
    assert_false(replays(b, "file")); /* a listing is made elsewhere: nothing to measure here */
    bench_close(b);
    loop_close(f.l);
    site_close(f.s.srv.site);
    serving_empty(&f.s);
    assert_int_equal(rmdir(folder), 0);
}

static void no_folder_no_file(void **state)
{
    struct fixture f;
    struct bench *b;

    (void)state;
    serving_fill(&f.s, &engine_null, &http_proto);
    begin(&f);
    assert_int_equal(bench_open(f.l, &b), 0);
    assert_non_null(bench_script(b, 0));
    assert_false(replays(b, "file"));
    assert_true(replays(b, "parse")); /* and the answer was only for the part before */
    bench_close(b);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_script_replays),
        cmocka_unit_test(file_is_the_folders_page),
        cmocka_unit_test(no_folder_no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
