/* SPDX-License-Identifier: MIT */
/* option_value.c - one value of one option: text to number and back, where it is put, which word
 * was meant.
 *
 * A number is digits, perhaps a point and more digits, perhaps a unit.  Everything is computed in
 * whole numbers; "1.5k" is exact, and what does not fit in 64 bits is refused, never wrapped.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "option.h"

struct unit {
    const char *name;
    uint64_t factor;
};

/* The first unit is that of a bare number; the others descend, for option_text(). */
static const struct unit count_units[] = {
    {"", 1}, {"g", 1000000000}, {"m", 1000000}, {"k", 1000}, {NULL, 0}};
static const struct unit size_units[] = {
    {"", 1},         {"t", 1ull << 40}, {"g", 1u << 30}, {"m", 1u << 20},
    {"k", 1u << 10}, {"b", 1},          {NULL, 0}};
static const struct unit time_units[] = {
    {"", 1000}, {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};

static const struct unit *units_of(enum option_type type)
{
    return type == OPTION_SIZE ? size_units : type == OPTION_TIME ? time_units : count_units;
}

/* Digits at *text as a number; *digits tells how many there were. */
static int read_digits(const char **text, uint64_t *n, unsigned *digits)
{
    *n = 0;
    for (*digits = 0; isdigit((unsigned char)**text); ++*text, ++*digits)
        if (__builtin_mul_overflow(*n, 10, n) ||
            __builtin_add_overflow(*n, (uint64_t)(**text - '0'), n))
            return -ERANGE;
    return 0;
}

static int read_quantity(const char *text, const struct unit *unit, uint64_t *n)
{
    uint64_t whole, part = 0, scale = 1;
    unsigned digits, decimals = 0;
    int err = read_digits(&text, &whole, &digits);

    if (err || !digits)
        return err ? err : -EINVAL;
    if (*text == '.') {
        text++;
        err = read_digits(&text, &part, &decimals);
        if (err || !decimals || decimals > 6)
            return -EINVAL;
    }
    while (decimals--)
        scale *= 10;
    while (unit->name && strcasecmp(unit->name, text) != 0)
        unit++;
    /* part < 10^6 and factor <= 2^40: no overflow */
    if (!unit->name || part * unit->factor % scale != 0)
        return -EINVAL;
    if (__builtin_mul_overflow(whole, unit->factor, n) ||
        __builtin_add_overflow(*n, part * unit->factor / scale, n))
        return -ERANGE;
    return 0;
}

int option_number(const char *text, uint64_t *n)
{
    return read_quantity(text, count_units, n);
}

int option_size(const char *text, uint64_t *bytes)
{
    return read_quantity(text, size_units, bytes);
}

int option_time(const char *text, uint64_t *ms)
{
    return read_quantity(text, time_units, ms);
}

int option_bool(const char *text, bool *on)
{
    static const char *const words[] = {"off", "on", "no", "yes", "false", "true", "0", "1"};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(words[i], text) != 0)
            continue;
        *on = i % 2;
        return 0;
    }
    return -EINVAL;
}

void option_text(enum option_type type, uint64_t n, char text[OPTION_VALUE_TEXT])
{
    const struct unit *unit = units_of(type) + 1;

    while (n && unit->name && n % unit->factor != 0)
        unit++;
    if (!n || !unit->name || type == OPTION_NUMBER) /* counts and ports read better in full */
        snprintf(text, OPTION_VALUE_TEXT, "%llu", (unsigned long long)n);
    else
        snprintf(text, OPTION_VALUE_TEXT, "%llu%s", (unsigned long long)(n / unit->factor),
                 strcmp(unit->name, "b") == 0 ? "" : unit->name);
}

static int set_quantity(const struct option_row *row, uint64_t *field, const char *text)
{
    uint64_t n = 0;
    int err = read_quantity(text, units_of(row->type), &n);

    if (err)
        return err;
    if (n < row->min || (row->max && n > row->max))
        return -ERANGE;
    *field = n;
    return 0;
}

static int set_choice(const struct option_row *row, unsigned *field, const char *text)
{
    for (unsigned i = 0; row->values[i]; i++) {
        if (strcmp(row->values[i], text) != 0)
            continue;
        *field = i;
        return 0;
    }
    return -EINVAL;
}

int option_set(const struct option_row *row, void *target, const char *text)
{
    void *field = (char *)target + row->offset;
    struct option_list *list = field;
    switch (row->type) {
    case OPTION_FLAG:
    case OPTION_SWITCH:
        return option_bool(text, field);
    case OPTION_NUMBER:
    case OPTION_SIZE:
    case OPTION_TIME:
        return set_quantity(row, field, text);
    case OPTION_CHOICE:
        return set_choice(row, field, text);
    case OPTION_TEXT:
        *(const char **)field = text;
        return *text ? 0 : -EINVAL;
    case OPTION_LIST:
        if (!*text)
            return -EINVAL;
        if (list->count == OPTION_LIST_MAX)
            return -ERANGE;
        list->item[list->count++] = text;
        return 0;
    }
    return -EINVAL;
}

/* Edits between two words, a swap of neighbours counting as one (Damerau-Levenshtein,
 * restricted). */
static unsigned distance(const char *a, const char *b)
{
    enum { WORD_MAX = 40 };
    unsigned row[3][WORD_MAX + 1], m = (unsigned)strlen(a), n = (unsigned)strlen(b);

    if (m > WORD_MAX || n > WORD_MAX)
        return WORD_MAX;
    for (unsigned j = 0; j <= n; j++)
        row[0][j] = j;
    for (unsigned i = 1; i <= m; i++) {
        unsigned *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];

        now[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);

            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[m % 3][n];
}

const char *option_nearest(const char *typed, const char *const *words)
{
    const char *nearest = NULL;
    size_t len = strlen(typed);
    /* one slip in a short word, two or three in a long one */
    unsigned far_max = 1 + (unsigned)len / 4, least = ~0U;
    for (; *words; words++) {
        unsigned far = distance(typed, *words), rank;
        /* the start of a word says which was meant */
        if (len >= 3 && strncmp(typed, *words, len) == 0)
            far = 1;
        /* if two are equally near, the one that begins alike: first letters are rarely wrong */
        rank = 2 * far + (*typed != **words);
        if (far <= far_max && far < strlen(*words) && rank < least) {
            nearest = *words;
            least = rank;
        }
    }
    return nearest;
}
