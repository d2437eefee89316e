/* SPDX-License-Identifier: MIT */
/* rehearse.c - the null engine's replay: every part does a whole exchange, again and again, and a
 * part that cannot be replayed reports it.
 */
#include "turns.h"

enum { TIMES = 100 };

static char folder[] = "/tmp/rung-rehearse-XXXXXX";

static const struct part *part_named(const char *name)
{
    unsigned count;
    const struct part *part = rehearsal_parts(&count);

    for (unsigned i = 0; i < count; i++)
        if (strcmp(part[i].name, name) == 0)
            return &part[i];
    return NULL;
}

static bool replays(struct rehearsal *r, const char *name)
{
    const struct part *part = part_named(name);

    assert_non_null(part);
    for (unsigned i = 0; i < TIMES; i++)
        part->once(r);
    return !rehearsal_failed(r);
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
    struct rehearsal *r;
    unsigned scripts = 0;

    (void)state;
    serving_fill(&f.s, &engine_null, &http_proto);
    begin(&f);
    assert_int_equal(rehearsal_open(f.l, &r), 0);
    while (rehearsal_script(r, scripts)) {
        assert_true(rehearsal_bytes(r) > 0);
        assert_true(replays(r, "parse"));
        assert_true(replays(r, "machine"));
        assert_true(replays(r, "reply"));
        scripts++;
    }
    assert_int_equal(scripts, 2);
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_ANSWERS), scripts * TIMES);
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_COMPLETE), scripts * TIMES);
    rehearsal_close(r);
    end(&f);
}

static void file_is_the_folders_page(void **state)
{
    char path[64];
    struct fixture f;
    struct rehearsal *r;
    FILE *page;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/index.html", folder);
    serving_fill(&f.s, &engine_null, &http_proto);
    open_site(&f);
    begin(&f);
    assert_int_equal(rehearsal_open(f.l, &r), 0);
    assert_non_null(rehearsal_script(r, 0));
    page = fopen(path, "w");
    assert_non_null(page);
    assert_true(fputs("page", page) >= 0);
    assert_int_equal(fclose(page), 0);
    assert_true(replays(r, "file"));
    assert_int_equal(stats_sum(f.s.srv.stats, STAT_BODY_BYTES), 4 * TIMES);
    assert_int_equal(unlink(path), 0);
    assert_false(replays(r, "file")); /* a listing is made elsewhere: nothing to measure here */
    rehearsal_close(r);
    loop_close(f.l);
    site_close(f.s.srv.site);
    serving_empty(&f.s);
    assert_int_equal(rmdir(folder), 0);
}

static void no_folder_no_file(void **state)
{
    struct fixture f;
    struct rehearsal *r;

    (void)state;
    serving_fill(&f.s, &engine_null, &http_proto);
    begin(&f);
    assert_int_equal(rehearsal_open(f.l, &r), 0);
    assert_non_null(rehearsal_script(r, 0));
    assert_false(replays(r, "file"));
    assert_true(replays(r, "parse")); /* and the answer was only for the part before */
    rehearsal_close(r);
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
