/* SPDX-License-Identifier: MIT */
/* engines_print.c - rung engines: the list, for people and (--json) for programs, on stdout.
 *
 * What --json prints is a promise: names of members stay, new ones may come.
 */
#include <stdio.h>
#include <string.h>
#include "../base/escape.h"
#include "serve.h"

static const char *const model_names[] = {
    [ENGINE_BLOCKING] = "blocking",
    [ENGINE_READINESS] = "readiness",
    [ENGINE_COMPLETION] = "completion",
    [ENGINE_NONE] = "none",
};

static void print_json(const struct engine *e, const char *refusal, bool last)
{
    char summary[512], reason[512];

    escape_json(summary, sizeof(summary), (struct slice){e->summary, strlen(e->summary)});
    escape_json(reason, sizeof(reason), (struct slice){refusal, refusal ? strlen(refusal) : 0});
    printf("  {\"name\": \"%s\", \"summary\": \"%s\", \"model\": \"%s\", \"may_block\": %s, "
           "\"capacity\": %u, \"stack_bytes\": %u, \"available\": %s, \"reason\": ",
           e->name, summary, model_names[e->model], e->may_block ? "true" : "false", e->capacity,
           e->stack_bytes, refusal ? "false" : "true");
    if (refusal)
        printf("\"%s\"}%s\n", reason, last ? "" : ",");
    else
        printf("null}%s\n", last ? "" : ",");
}

static void print_line(const struct engine *e, const char *refusal)
{
    char at_once[32] = "as many as descriptors", stack[48] = "";

    if (e->capacity != ENGINE_DESCRIPTORS)
        snprintf(at_once, sizeof(at_once), "%u", e->capacity);
    if (e->stack_bytes)
        snprintf(stack, sizeof(stack), "; stack of each: %u KiB", e->stack_bytes / 1024);
    printf("%-9s %s (%s; connections at once: %s%s)\n", e->name, e->summary,
           model_names[e->model], e->model == ENGINE_NONE ? "none" : at_once, stack);
    if (refusal)
        printf("%-9s cannot run here: %s\n", "", refusal);
}

int engines_print(bool json)
{
    if (json)
        printf("[\n");
    for (unsigned i = 0; engine_list[i]; i++) {
        const char *refusal = engine_refusal(engine_list[i]);

        if (json)
            print_json(engine_list[i], refusal, !engine_list[i + 1]);
        else
            print_line(engine_list[i], refusal);
    }
    if (json)
        printf("]\n");
    return EXIT_DONE;
}
