/* SPDX-License-Identifier: MIT */
/* pairs.c - a list of pairs, from the command line or a file, and whether a socket is in it.
 *
 * The whole list is read before anything is dropped, so that a mistake in the last line changes
 * nothing.  The list is sorted, because a machine may have a hundred thousand sockets too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "drop.h"

static int add(struct pairs *pairs, const struct pair *pair)
{
    if ((pairs->count & (pairs->count - 1)) == 0) { /* a power of two: full */
        size_t room = pairs->count ? 2 * pairs->count : 1;
        struct pair *larger = reallocarray(pairs->pair, room, sizeof(*larger));

        if (!larger)
            return -ENOMEM;
        pairs->pair = larger;
    }
    pairs->pair[pairs->count++] = *pair;
    return 0;
}

static int out_of_memory(void)
{
    say_error("out of memory: too many pairs");
    return EXIT_FAILED;
}

static int add_operands(struct pairs *pairs, const struct option_found *found)
{
    char line[2 * END_TEXT];
    struct pair pair;
    const char *why;

    for (unsigned i = 0; i < found->operands; i += 2) {
        const char *peer = i + 1 < found->operands ? found->operand[i + 1] : "";

        if (snprintf(line, sizeof(line), "%s %s", found->operand[i], peer) >= (int)sizeof(line))
            why = "it is too long for a pair";
        else
            why = pair_read(line, &pair);
        if (why) {
            say_error("'%.*s%s%.*s': %s", PAIR_LINE_MAX, found->operand[i], *peer ? " " : "",
                      PAIR_LINE_MAX, peer, why);
            return EXIT_USAGE;
        }
        if (add(pairs, &pair) < 0)
            return out_of_memory();
    }
    return EXIT_DONE;
}

static int add_line(struct pairs *pairs, const char *where, const char *text, size_t len)
{
    char line[PAIR_LINE_MAX + 1];
    const char *why = NULL;
    struct pair pair;

    if (len <= PAIR_LINE_MAX && (text[0] == '#' || strspn(text, " \t\r") == len))
        return EXIT_DONE;
    if (len > PAIR_LINE_MAX) {
        say_error("%s: the line has %zu bytes, and a pair at most %d", where, len, PAIR_LINE_MAX);
        return EXIT_USAGE;
    }
    memcpy(line, text, len + 1);
    if (strlen(text) != len)
        why = "there is a NUL in it";
    else
        why = pair_read(line, &pair);
    if (why) {
        say_error("%s: '%s': %s", where, text, why);
        return EXIT_USAGE;
    }
    if (pairs->count == PAIRS_MAX) {
        say_error("%s: more than %d pairs: divide them", where, PAIRS_MAX);
        return EXIT_USAGE;
    }
    return add(pairs, &pair) < 0 ? out_of_memory() : EXIT_DONE;
}

static int add_lines(struct pairs *pairs, const char *name, FILE *in)
{
    char *text = NULL, where[PAIR_LINE_MAX];
    unsigned long number = 0;
    int code = EXIT_DONE;
    size_t cap = 0;
    ssize_t len;

    while (!code && (len = getline(&text, &cap, in)) >= 0) {
        len -= len && text[len - 1] == '\n';
        text[len] = 0;
        snprintf(where, sizeof(where), "%.100s, line %lu", name, ++number);
        code = add_line(pairs, where, text, (size_t)len);
    }
    if (!code && ferror(in)) {
        say_error("cannot read %s: %s", name, say_why(errno));
        code = EXIT_FAILED;
    }
    free(text);
    return code;
}

static int add_file(struct pairs *pairs, const char *path)
{
    FILE *in;
    int code;

    if (strcmp(path, "-") == 0)
        return add_lines(pairs, "standard input", stdin);
    in = fopen(path, "re");
    if (!in) {
        say_error("cannot read the pairs in %s: %s", path, say_why(errno));
        return EXIT_FAILED;
    }
    code = add_lines(pairs, path, in);
    fclose(in);
    return code;
}

static int compare(const void *a, const void *b)
{
    return pair_compare(a, b);
}

int pairs_make(struct pairs *pairs, const struct option_found *found, const char *path)
{
    int code = add_operands(pairs, found);

    if (!code && path)
        code = add_file(pairs, path);
    if (code || !pairs->count)
        return code;
    qsort(pairs->pair, pairs->count, sizeof(*pairs->pair), compare);
    pairs->met = calloc(pairs->count, sizeof(*pairs->met));
    return pairs->met ? EXIT_DONE : out_of_memory();
}

void pairs_free(struct pairs *pairs)
{
    free(pairs->pair);
    free(pairs->met);
}

bool pairs_have(struct pairs *pairs, const struct pair *pair)
{
    size_t low = 0, high = pairs->count;
    bool have = false;

    while (low < high) { /* the first that is not before it */
        size_t middle = low + (high - low) / 2;

        if (pair_compare(&pairs->pair[middle], pair) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < pairs->count && pair_compare(&pairs->pair[low], pair) == 0; low++)
        if (!pairs->pair[low].device || pairs->pair[low].device == pair->device)
            pairs->met[low] = have = true;
    return have;
}

size_t pairs_met(const struct pairs *pairs)
{
    size_t met = 0;

    for (size_t i = 0; i < pairs->count; i++)
        met += pairs->met[i];
    return met;
}
