/* SPDX-License-Identifier: MIT */
/* group.h - the requests of a period, grouped by path, connection, client or status.
 *
 * A group costs 10 kB; groups beyond GROUPS_MAX are one, called "others".
 */
#ifndef TRACE_GROUP_H
#define TRACE_GROUP_H
#include "../../core/hist.h"
#include "stage.h"

enum { GROUPS_MAX = 1024, GROUP_TEXT = TARGET_TEXT };

/* In the order of the values of --by and --sort (group_by, group_sort). */
enum group_by { BY_PATH, BY_CONNECTION, BY_PEER, BY_STATUS, GROUP_BYS };
enum group_sort { SORT_TIME, SORT_REQUESTS, SORT_P50, SORT_P99, SORT_NAME, GROUP_SORTS };
extern const char *const group_by[GROUP_BYS + 1], *const group_sort[GROUP_SORTS + 1];

struct group {
    char name[GROUP_TEXT];
    uint64_t requests;
    uint64_t answer_ns;       /* all answers together; how many: took.total */
    uint64_t stage_ns[STAGES]; /* ... each stage of theirs: together the same */
    struct hist took;         /* from the head's arrival to the answer's last byte */
    uint64_t key;             /* by which it is sorted */
};

struct groups {
    struct group *group[GROUPS_MAX];
    uint16_t slot[4 * GROUPS_MAX]; /* a group's number + 1, by its name; 0: free */
    struct group *all, *others;
    struct group *sorted[GROUPS_MAX + 1];
    unsigned count;
    enum group_by by;
};

int groups_init(struct groups *g); /* 0 or -ENOMEM; groups_free() in any case */
void groups_add(struct groups *g, const struct request *r, const struct stages *s);
/* Fills sorted with the groups in that order, the largest first; returns how many. */
unsigned groups_sorted(struct groups *g, enum group_sort sort);
void groups_clear(struct groups *g);
void groups_free(struct groups *g);

/* The stage that took the most time of all answers together; -1: none. */
int group_slowest(const struct group *g);

#endif
