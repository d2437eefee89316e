/* SPDX-License-Identifier: MIT */
/* metrics_page.c - a page of metrics for one request: finds the figures that are not counters, then
 * metrics_text.c writes the page.
 *
 * Descriptors are counted by their names in /proc.  The folder of this process is opened once, at
 * the start, because a user that a server has become, or its sandbox, may not open it later.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include "metrics.h"

struct page {
    struct source source;
    char text[];
};

static uint64_t names_in(DIR *folder)
{
    uint64_t n = 0;

    if (!folder)
        return 0;
    rewinddir(folder);
    for (const struct dirent *d; (d = readdir(folder)) != NULL;)
        n += d->d_name[0] != '.';
    return n;
}

/* Descriptors of a process; 0: they cannot be seen.  After --user the kernel shows them to that
 * process alone. */
static uint64_t count_of(pid_t pid)
{
    char path[40];
    DIR *folder;
    uint64_t n;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    n = names_in(folder);
    if (folder)
        closedir(folder);
    return n;
}

/* Descriptors of all processes of the server; 0: some of them cannot be looked at. */
static uint64_t count_descriptors(const struct metrics_start *start)
{
    const struct arrangement *a = &start->srv->arrangement;
    uint64_t sum = names_in(start->descriptors), n = sum;

    for (unsigned i = 0; n && a->processes && i < a->workers; i++) {
        pid_t pid = start->srv->worker_pid[i];

        n = pid ? count_of(pid) : n;
        sum += pid ? n : 0;
    }
    return n ? sum : 0;
}

int metrics_page(const struct metrics_start *start, bool plain, struct source **source)
{
    struct metrics_view view = {.srv = start->srv, .uptime_ms = clock_ms() - start->clock_ms,
                                .started_ms = start->unix_ms};
    struct page *page = malloc(sizeof(*page) + metrics_bytes_max(start->srv));
    struct rlimit limit;

    if (!page)
        return -ENOMEM;
    view.descriptors = count_descriptors(start);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        view.descriptors_max = limit.rlim_cur;
    page->source = (struct source){.kind = SOURCE_MADE, .bytes = page->text,
                                   .type = metrics_type(plain)};
    page->source.size = metrics_write(&view, plain, page->text);
    *source = &page->source;
    return 0;
}

void metrics_page_free(struct source *source)
{
    free(source); /* its first member */
}

void metrics_start(struct metrics_start *start, const struct server *srv)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    *start = (struct metrics_start){
        .srv = srv, .clock_ms = clock_ms(), .descriptors = opendir("/proc/self/fd"),
        .unix_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000};
}

void metrics_end(struct metrics_start *start)
{
    if (start->descriptors)
        closedir(start->descriptors);
}
