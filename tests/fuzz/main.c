/* SPDX-License-Identifier: MIT */
/* Drives a fuzz target where there is no libFuzzer: every corpus file, then simple mutations of
 * them for a while.
 *
 *   TARGET [-max_total_time=SECONDS] [-seed=N] [-dict=FILE] [-artifact_prefix=PATH] [FILE or
 * FOLDER]...
 *
 * The options are libFuzzer's.  This driver is blind (no coverage shows it what is new), but quick,
 * and a seed repeats a run.  An input that ends the program is kept as PATHcrash-SEED.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* From the sanitizers, where they are linked: they end the program without a signal. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { INPUT_MAX = 65536, INPUTS_MAX = 4096, WORDS_MAX = 512, WORD_MAX = 64, ALARM_S = 60 };

struct input {
    uint8_t *bytes;
    size_t len;
};

static struct input corpus[INPUTS_MAX], word[WORDS_MAX];
static unsigned inputs, words;
static uint64_t seed, rng;
static const char *prefix = "";
static struct input now; /* the input that the target has now */

static uint64_t draw(uint64_t below)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return below ? rng % below : 0;
}

/* --- Keep inputs that crash ------------------------------------------------------------------- */

static void keep(void)
{
    char path[512];
    int fd;

    snprintf(path, sizeof(path), "%scrash-%llu", prefix, (unsigned long long)seed);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, now.bytes, now.len) != (ssize_t)now.len)
        fprintf(stderr, "cannot keep the input in %s\n", path);
    else
        fprintf(stderr, "seed %llu: the input is kept in %s\n", (unsigned long long)seed, path);
    if (fd >= 0)
        close(fd);
}

static void killed(int number)
{
    fprintf(stderr, number == SIGALRM ? "an input takes longer than %d s\n" : "signal %d\n",
            number == SIGALRM ? ALARM_S : number);
    keep();
    _exit(1);
}

static void watch_for_death(void)
{
    struct sigaction act = {.sa_handler = killed, .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGABRT, &act, NULL);
    sigaction(SIGALRM, &act, NULL);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep);
    else
        sigaction(SIGSEGV, &act, NULL);
}

/* The target gets a block of exactly that size, so that a read past the end is seen. */
static void run(const uint8_t *bytes, size_t len)
{
    now.bytes = malloc(len ? len : 1);
    if (!now.bytes)
        abort();
    now.len = len;
    if (len)
        memcpy(now.bytes, bytes, len);
    LLVMFuzzerTestOneInput(now.bytes, len);
    free(now.bytes);
}

/* --- Reading ---------------------------------------------------------------------------------- */

static int add_file(const char *path)
{
    uint8_t buf[INPUT_MAX];
    ssize_t n;
    int fd = open(path, O_RDONLY);

    if (fd < 0)
        return -errno;
    n = read(fd, buf, sizeof(buf));
    close(fd);
    if (n < 0 || inputs == INPUTS_MAX)
        return n < 0 ? -errno : 0;
    corpus[inputs].bytes = malloc((size_t)n + 1);
    if (!corpus[inputs].bytes)
        return -ENOMEM;
    memcpy(corpus[inputs].bytes, buf, (size_t)n);
    corpus[inputs++].len = (size_t)n;
    return 0;
}

static int add_path(const char *path)
{
    struct dirent **names;
    struct stat st;
    char file[1024];
    int count, err = 0;

    if (stat(path, &st))
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return add_file(path);
    count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && !err)
            err = add_file(file);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return count < 0 ? -errno : err;
}

/* A line of a dictionary: NAME="WORD" or "WORD", with \xHH, \\ and \". */
static void add_word(const char *line)
{
    const char *s = strchr(line, '"');
    struct input *w = &word[words];
    char hex[3] = "";

    if (*line == '#' || !s || words == WORDS_MAX || !(w->bytes = calloc(1, WORD_MAX)))
        return;
    for (s++; *s && *s != '"' && w->len < WORD_MAX; s++) {
        if (*s == '\\' && s[1] == 'x' && s[2] && s[3]) {
            memcpy(hex, s + 2, 2);
            w->bytes[w->len++] = (uint8_t)strtoul(hex, NULL, 16);
            s += 3;
            continue;
        }
        if (*s == '\\' && s[1])
            s++;
        w->bytes[w->len++] = (uint8_t)*s;
    }
    words++;
}

static int read_words(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");

    if (!file)
        return -errno;
    while (fgets(line, sizeof(line), file))
        add_word(line);
    fclose(file);
    return 0;
}

/* --- Mutating --------------------------------------------------------------------------------- */

static size_t insert(uint8_t *buf, size_t len, const uint8_t *bytes, size_t n)
{
    size_t at = draw(len + 1);

    if (n > INPUT_MAX - len)
        return len;
    memmove(buf + at + n, buf + at, len - at);
    memcpy(buf + at, bytes, n);
    return len + n;
}

static size_t mutate(uint8_t *buf, size_t len)
{
    static const uint8_t telling[] = {0,  1,  9,  10, 13, 32, 34,  37, 44,
                                      46, 47, 58, 59, 61, 127, 128, 255};
    const struct input *other = inputs ? &corpus[draw(inputs)] : NULL;
    uint8_t copy[256];
    size_t at = draw(len), n = draw(len - at < 64 ? len - at : 64);

    switch (draw(8)) {
    case 0: /* a bit */
        if (len)
            buf[at] ^= (uint8_t)(1u << draw(8));
        return len;
    case 1: /* a byte that often means something */
        if (len)
            buf[at] = telling[draw(sizeof(telling))];
        return len;
    case 2: /* any byte */
        copy[0] = (uint8_t)draw(256);
        return insert(buf, len, copy, 1);
    case 3: /* less */
        memmove(buf + at, buf + at + n, len - at - n);
        return len - n;
    case 4: /* a piece again, elsewhere */
        memcpy(copy, buf + at, n);
        return insert(buf, len, copy, n);
    case 5: /* a piece of another input */
        if (!other || !other->len)
            return len;
        at = draw(other->len);
        n = draw(other->len - at < 256 ? other->len - at : 256);
        return insert(buf, len, other->bytes + at, n);
    case 6: /* a word */
        other = &word[draw(words)];
        return words ? insert(buf, len, other->bytes, other->len) : len;
    default: /* cut short */
        return draw(8) ? len : at;
    }
}

static uint64_t wander(uint64_t seconds)
{
    static uint8_t buf[INPUT_MAX];
    struct timespec start, t;
    uint64_t runs = 0;
    size_t len;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;; runs++) {
        if (runs % 64 == 0) {
            alarm(ALARM_S);
            clock_gettime(CLOCK_MONOTONIC, &t);
            if ((uint64_t)(t.tv_sec - start.tv_sec) >= seconds)
                return runs;
        }
        const struct input *from = inputs ? &corpus[draw(inputs)] : &(struct input){0};
        len = from->len;
        if (len)
            memcpy(buf, from->bytes, len);
        for (uint64_t i = 1 + draw(6); i; i--)
            len = mutate(buf, len);
        run(buf, len);
    }
}

/* --- Starting --------------------------------------------------------------------------------- */

static bool option(const char *arg, const char *name, const char **value)
{
    size_t n = strlen(name);

    if (strncmp(arg, name, n))
        return false;
    *value = arg + n;
    return true;
}

int main(int argc, char **argv)
{
    uint64_t seconds = 2, runs;
    const char *value;
    int err = 0;

    seed = (uint64_t)time(NULL);
    for (int i = 1; i < argc && !err; i++) {
        if (option(argv[i], "-max_total_time=", &value))
            seconds = strtoull(value, NULL, 10);
        else if (option(argv[i], "-seed=", &value))
            seed = strtoull(value, NULL, 10);
        else if (option(argv[i], "-dict=", &value))
            err = read_words(value);
        else if (option(argv[i], "-artifact_prefix=", &value))
            prefix = value;
        else if (argv[i][0] != '-') /* libFuzzer's other options are ignored */
            err = add_path(argv[i]);
        if (err)
            fprintf(stderr, "%s: %s\n", argv[i], strerror(-err));
    }
    if (err)
        return 2;
    rng = seed * 2654435761u + 88172645463325252u;
    printf("seed %llu, %u inputs, %u words\n", (unsigned long long)seed, inputs, words);
    fflush(stdout);
    watch_for_death();
    alarm(ALARM_S);
    for (unsigned i = 0; i < inputs; i++)
        run(corpus[i].bytes, corpus[i].len);
    runs = wander(seconds);
    printf("%u inputs and %llu mutations: all well\n", inputs, (unsigned long long)runs);
    for (unsigned i = 0; i < inputs; i++)
        free(corpus[i].bytes);
    for (unsigned i = 0; i < words; i++)
        free(word[i].bytes);
    return 0;
}
