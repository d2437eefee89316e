/* SPDX-License-Identifier: MIT */
/* ksyms.c - which of the kernel's functions an address is in, by /proc/kallsyms. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "stacks.h"

struct ksym {
    uint64_t address;
    char *name;
};

struct ksyms {
    struct ksym *symbol; /* by address */
    size_t count, room;
};

static int by_address(const void *a, const void *b)
{
    const struct ksym *one = a, *other = b;

    if (one->address != other->address)
        return one->address < other->address ? -1 : 1;
    return strcmp(other->name, one->name); /* of several names, always the same */
}

static int add(struct ksyms *k, uint64_t address, const char *name)
{
    if (k->count == k->room) {
        size_t room = k->room ? 2 * k->room : 65536;
        struct ksym *more = reallocarray(k->symbol, room, sizeof(*more));

        if (!more)
            return -ENOMEM;
        k->symbol = more;
        k->room = room;
    }
    k->symbol[k->count] = (struct ksym){address, strdup(name)};
    return k->symbol[k->count].name ? (k->count++, 0) : -ENOMEM;
}

int ksyms_begin(struct ksyms **to)
{
    struct ksyms *k = calloc(1, sizeof(*k));
    FILE *file = fopen("/proc/kallsyms", "re");
    char line[512], name[256], type;
    unsigned long long address;
    bool hidden = false;
    int err = !k ? -ENOMEM : file ? 0 : -errno;

    *to = k;
    while (!err && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%llx %c %255s", &address, &type, name) != 3 || !strchr("tTwW", type))
            continue;
        hidden = hidden || !address;
        err = address ? add(k, address, name) : 0;
    }
    if (file)
        fclose(file);
    if (!err && !k->count)
        return hidden ? -EACCES : -ENOENT;
    if (!err)
        qsort(k->symbol, k->count, sizeof(k->symbol[0]), by_address);
    return err;
}

const char *ksyms_at(const struct ksyms *k, uint64_t address)
{
    size_t from = 0, to = k ? k->count : 0;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (k->symbol[middle].address <= address)
            from = middle + 1;
        else
            to = middle;
    }
    return from ? k->symbol[from - 1].name : NULL;
}

void ksyms_end(struct ksyms *k)
{
    for (size_t i = 0; k && i < k->count; i++)
        free(k->symbol[i].name);
    if (k)
        free(k->symbol);
    free(k);
}
