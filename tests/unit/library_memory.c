/* SPDX-License-Identifier: MIT */
/* library_memory.c - every allocation of the libraries that make bodies is refused in turn: those
 * that compress, libarchive, libcmark.
 *
 * The libraries allocate by malloc() and its like, which this program replaces: all calls come here
 * first.  A library may end the process when it gets no memory, so each run has a process of its
 * own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "../../core/types.h"
#include "../../server/compress.h"
#include "../../server/markdown.h"
#include "../../server/pack.h"
#include "../fake.h"
#include "../refuse.h"

/* --- What is put in place --------------------------------------------------------------------- */

/* The first calls come before a sanitizer has begun. */
#define EARLY __attribute__((no_sanitize("address", "undefined", "thread")))

static struct refuse_real refuse_real;

EARLY static void *next_function(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

EARLY void *malloc(size_t n)
{
    if (!refuse_real.malloc)
        refuse_real.malloc = (void *(*)(size_t))next_function("malloc");
    return refuse.on ? refuse_malloc(n) : refuse_real.malloc(n);
}

EARLY void *calloc(size_t count, size_t n)
{
    if (!refuse_real.calloc)
        refuse_real.calloc = (void *(*)(size_t, size_t))next_function("calloc");
    return refuse.on ? refuse_calloc(count, n) : refuse_real.calloc(count, n);
}

EARLY void *realloc(void *p, size_t n)
{
    if (!refuse_real.realloc)
        refuse_real.realloc = (void *(*)(void *, size_t))next_function("realloc");
    return refuse.on ? refuse_realloc(p, n) : refuse_real.realloc(p, n);
}

EARLY void free(void *p)
{
    if (!refuse_real.free)
        refuse_real.free = (void (*)(void *))next_function("free");
    if (refuse.on)
        refuse_free(p);
    else
        refuse_real.free(p);
}

/* --- Turns ------------------------------------------------------------------------------------ */

/* How a process ends: its work was done or refused as it must be; the result was wrong; blocks were
 * left; the n-th allocation was not reached; libarchive has ended it. */
enum { GOOD = 40, WRONG, LEFT, NOT_REACHED, ENDED };

/* Bytes of a result, counted and added up. */
struct result {
    uint64_t count, sum;
};

static void add(struct result *r, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r->sum = r->sum * 31 + ((const unsigned char *)bytes)[i];
    r->count += n;
}

static bool can_pack;

static bool can_packs(void)
{
    return can_pack;
}

struct work {
    const char *name;
    bool (*can)(void);                /* NULL, or whether rung was built with it */
    int (*does)(struct result *made); /* 0 or -errno */
};

static struct result *right; /* without refusals; all processes share it */

static bool is_right(const struct result *made)
{
    return made->count == right->count && made->sum == right->sum;
}

/* Where libarchive gets no memory for a string it calls exit(), and in other places it uses the
 * memory that it did not get. */
static bool is_of_libarchive(void)
{
    void *frame[REFUSE_FRAMES];
    int frames;
    Dl_info info;

    refuse_off();
    frames = backtrace(frame, REFUSE_FRAMES);
    for (int i = 0; i < frames; i++)
        if (dladdr(frame[i], &info) && strstr(info.dli_fname, "/libarchive.so"))
            return true;
    return false;
}

static void at_exit(void)
{
    if (is_of_libarchive())
        _exit(ENDED);
}

static void at_fault(int number)
{
    if (is_of_libarchive())
        _exit(ENDED);
    signal(number, SIG_DFL); /* the instruction is tried again */
}

static void child(const struct work *work, unsigned n, bool after)
{
    struct result first = {0}, next = {0};
    bool reached;
    int err;

    refuse_begin(n, after);
    refuse_on();
    err = work->does(&first);
    refuse_off();
    reached = refuse_reached();
    if (!n)
        *right = first;
    if (err ? !n || (err != -ENOMEM && err != -EIO) : !is_right(&first))
        _exit(WRONG);
    if (refuse.left) {
        refuse_print();
        _exit(LEFT);
    }
    if (work->does(&next) || !is_right(&next))
        _exit(WRONG);
    _exit(reached ? GOOD : NOT_REACHED);
}

/* How it ended; a signal: its number, negative. */
static int run(const struct work *work, unsigned n, bool after)
{
    pid_t pid = fork();
    int status;

    must(pid >= 0);
    if (!pid) {
        signal(SIGSEGV, at_fault); /* cmocka's would go on with the tests */
        must(atexit(at_exit) == 0);
        child(work, n, after);
    }
    must(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void in_turn(const struct work *work, bool after)
{
    unsigned n = 1, bad = 0, ended = 0;
    int how;

    if (work->can && !work->can())
        skip(); /* rung was built without it */
    assert_int_equal(run(work, 0, false), GOOD);
    while ((how = run(work, n, after)) != NOT_REACHED) {
        ended += how == ENDED;
        if (how != GOOD && how != ENDED) {
            print_error("%s, allocation %u%s: %d\n", work->name, n, after ? " and all after" : "",
                        how);
            bad++;
        }
        n++;
    }
    print_message("%s: %u allocations were refused%s", work->name, n - 1,
                  after ? ", with all after it" : "");
    if (ended)
        print_message("; libarchive ended the process for %u of them", ended);
    print_message("\n");
    assert_int_equal(bad, 0);
    assert_true(!ended || work->can == can_packs);
    assert_true(n > 1);
}

/* --- Compressors ------------------------------------------------------------------------------ */

enum { TEXT_BYTES = 200000 };

static char text[TEXT_BYTES], out[TEXT_BYTES];

static int compresses(enum coding coding, struct result *made)
{
    size_t n = compress_write(coding, (struct slice){text, sizeof(text)}, out, sizeof(out));

    add(made, out, n);
    return n ? 0 : -ENOMEM;
}

#define X(name, coding) \
static bool can_##name(void) \
{ \
    return compressor_of(coding); \
} \
static int name(struct result *made) \
{ \
    return compresses(coding, made); \
}
X(gzip, CODING_GZIP)
X(br, CODING_BR)
X(zstd, CODING_ZSTD)
#undef X

/* --- Markdown --------------------------------------------------------------------------------- */

static int markdown(struct result *made)
{
    static const char page[] = "# A\n\n* b ![c](d)\n* [e]\n\n[e]: /f\n\n> g `h` &amp; **i**\n\n"
                               "1. j\n\n       k\n\n***\n<b>l</b>\n";
    size_t len;
    char *html = markdown_html((struct slice){page, sizeof(page) - 1}, &len);

    if (html)
        add(made, html, len);
    free(html);
    return html ? 0 : -ENOMEM;
}

static bool can_markdown(void)
{
    struct result made = {0};

    return markdown(&made) == 0;
}

/* --- Packs ------------------------------------------------------------------------------------ */

static int take(void *arg, const void *bytes, size_t n)
{
    add(arg, bytes, n);
    return 0;
}

static int packs(enum pack_form form, struct result *made)
{
    static const struct pack_entry entries[] = {
        {.name = "top/", .folder = true, .mtime_s = 1},
        {.name = "top/a.txt", .compresses = true, .size = 30000, .mtime_s = 1},
        {.name = "top/\xff", .size = 20000, .mtime_s = 1ll << 40},
        {.name = "top/\xc3\xa4", .size = 0},
    };
    struct pack *p;
    int err = pack_open(&p, form, (struct pack_sink){take, made});

    if (err)
        return err;
    for (size_t i = 0; !err && i < sizeof(entries) / sizeof(entries[0]); i++) {
        err = pack_begin(p, &entries[i]);
        if (!err && entries[i].size)
            err = pack_write(p, text, entries[i].size);
        if (!err)
            err = pack_end(p);
    }
    if (!err)
        err = pack_finish(p);
    pack_close(p);
    return err;
}

static int tar(struct result *made)
{
    return packs(PACK_TAR, made);
}

static int tar_gz(struct result *made)
{
    return packs(PACK_TAR_GZ, made);
}

static int zip(struct result *made)
{
    return packs(PACK_ZIP, made);
}

/* --- All -------------------------------------------------------------------------------------- */

static void one_is_refused(void **state)
{
    in_turn(*state, false);
}

static void all_after_it_too(void **state)
{
    in_turn(*state, true);
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = "the quick brown fox "[random() % 20];
    return 0;
}

int main(void)
{
    static const struct work works[] = {
        {"gzip", can_gzip, gzip}, {"br", can_br, br}, {"zstd", can_zstd, zstd},
        {"markdown", can_markdown, markdown}, {"tar", can_packs, tar},
        {"tar_gz", can_packs, tar_gz}, {"zip", can_packs, zip}};
    enum { WORKS = sizeof(works) / sizeof(*works) };
    struct CMUnitTest tests[2 * WORKS];
    char names[2 * WORKS][64];
    void *frame[2];

    backtrace(frame, 2);
    refuse.stacks = true;
    can_pack = pack_can();
    right = mmap(NULL, sizeof(*right), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(right != MAP_FAILED);
    for (unsigned i = 0; i < 2 * WORKS; i++) {
        snprintf(names[i], sizeof(names[i]), "%s%s", works[i / 2].name, i % 2 ? "_all_after" : "");
        tests[i] = (struct CMUnitTest){names[i], i % 2 ? all_after_it_too : one_is_refused, NULL,
                                       NULL, (void *)(uintptr_t)&works[i / 2]};
    }
    return cmocka_run_group_tests_name("library_memory", tests, set_up, NULL);
}
