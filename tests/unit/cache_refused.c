/* SPDX-License-Identifier: MIT */
/* cache_refused.c - an answer that cannot be kept costs little: keeping is not tried each time.
 *
 * The linker sends inotify_add_watch() and ioctl() through here: the first is counted, and the
 * second says of a folder that it folds case.
 */
#include <linux/fs.h>
#include <sys/inotify.h>
#include "kept.h"

enum { ASKS = 10, LATER_MS = 20000 };

static unsigned watches_tried;
static bool folds;

int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    watches_tried++;
    return __real_inotify_add_watch(fd, path, mask);
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    if (!folds || request != FS_IOC_GETFLAGS)
        return __real_ioctl(fd, request, arg);
    *(int *)arg = FS_CASEFOLD_FL;
    return 0;
}

static unsigned tried_of(struct tree *t, const char *path)
{
    watches_tried = 0;
    for (int i = 0; i < ASKS; i++)
        assert_false(body_is(t, path, "real"));
    return watches_tried;
}

static void a_refusal_is_remembered(void **state)
{
    struct tree *t = *state;
    unsigned tried;

    make_file(t, "real", "real");
    assert_int_equal(symlinkat("real", t->root, "link"), 0);
    open_cache(t, PLENTY);
    tried = tried_of(t, "/link");
    assert_in_range(tried, 1, 3); /* the path was watched once */
    assert_int_equal(tried_of(t, "/link"), 0);
    now_ms += LATER_MS;
    assert_in_range(tried_of(t, "/link"), 1, 3);
    close_cache();
}

/* ... and does not last: a name that has become a file meanwhile is kept a little later. */
static void a_refusal_does_not_last(void **state)
{
    struct tree *t = *state;

    make_file(t, "real", "real");
    assert_int_equal(symlinkat("real", t->root, "link"), 0);
    open_cache(t, PLENTY);
    tried_of(t, "/link");
    assert_int_equal(unlinkat(t->root, "link", 0), 0);
    make_file(t, "link", "file");
    now_ms += LATER_MS;
    warm(t, "/link", "file");
    close_cache();
}

static void folders_that_fold_case_are_not_kept(void **state)
{
    struct tree *t = *state;

    make_file(t, "real", "real");
    folds = true;
    open_cache(t, PLENTY);
    for (int i = 0; i < ASKS; i++)
        assert_false(body_is(t, "/real", "real"));
    for (int i = 0; i < ASKS; i++)
        assert_int_equal(error_of(t, "/REAL"), -ENOENT);
    assert_int_equal(stats_sum(stats, STAT_CACHE_FILLS), 0);
    close_cache();
    folds = false;
    open_cache(t, PLENTY);
    warm(t, "/real", "real");
    close_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(a_refusal_is_remembered),
        TREE_TEST(a_refusal_does_not_last),
        TREE_TEST(folders_that_fold_case_are_not_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
