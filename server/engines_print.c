/* SPDX-License-Identifier: MIT */
/* engines_print.c - rung engines: the list, for people and (--json) for programs, on stdout.
 *
 * The output of --json is a promise: names of members stay, new ones may be added.
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

static void print_json(const struct engine *e, const char *refusal, bool chosen, bool last)
{
    static const char *const truth[] = {"false", "true"};
    char summary[512], use[512], reason[512];

    escape_json(summary, sizeof(summary), (struct slice){e->summary, strlen(e->summary)});
    escape_json(use, sizeof(use), (struct slice){e->use, strlen(e->use)});
    escape_json(reason, sizeof(reason), (struct slice){refusal, refusal ? strlen(refusal) : 0});
    printf("  {\"name\": \"%s\", \"summary\": \"%s\", \"use\": \"%s\", \"model\": \"%s\", "
           "\"may_block\": %s, \"forks\": %s, \"thread_pool\": %s, \"capacity\": %u, "
           "\"stack_bytes\": %u, \"auto\": %s, \"available\": %s, \"reason\": ",
           e->name, summary, use, model_names[e->model], truth[e->may_block], truth[e->forks],
           truth[e->thread_pool], e->capacity, e->stack_bytes, truth[chosen], truth[!refusal]);
    if (refusal)
        printf("\"%s\"}%s\n", reason, last ? "" : ",");
    else
        printf("null}%s\n", last ? "" : ",");
}

static void print_text(const struct engine *e, const char *refusal)
{
    char at_once[32] = "as descriptors allow", stack[48] = "";

    if (e->capacity != ENGINE_DESCRIPTORS)
        snprintf(at_once, sizeof(at_once), "%u", e->capacity);
    if (e->stack_bytes)
        snprintf(stack, sizeof(stack), "; stack of each: %u KiB", e->stack_bytes / 1024);
    printf("%-9s %s\n%-9s use it when %s\n", e->name, e->summary, "", e->use);
    if (e->model != ENGINE_NONE)
        printf("%-9s %s; connections: %s%s\n", "", model_names[e->model], at_once, stack);
    if (refusal)
        printf("%-9s cannot run here: %s\n", "", refusal);
}

void engine_print_auto(const struct engine *chosen, const char *why)
{
    if (chosen)
        printf("--engine auto, the default, chooses %s here: %s.\n", chosen->name, why);
}

int engines_print(bool json)
{
    const char *why;
    const struct engine *chosen = engine_auto(NULL, &why);

    if (json)
        printf("[\n");
    for (unsigned i = 0; engine_list[i]; i++) {
        const struct engine *e = engine_list[i];
        const char *refusal = engine_refusal(e, NULL);

        if (json)
            print_json(e, refusal, e == chosen, !engine_list[i + 1]);
        else
            print_text(e, refusal);
    }
    printf(json ? "]\n" : "\n");
    if (!json)
        engine_print_auto(chosen, why);
    return EXIT_DONE;
}
