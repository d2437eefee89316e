/* SPDX-License-Identifier: MIT */
/* tree.c - scheme 3, second half: a balanced search tree.
 *
 * A treap: sorted by deadline from left to right, and a heap by a random priority from top to
 * bottom, which keeps the expected height at O(log n) for any deadlines.  Nodes with equal
 * deadlines are sorted by address.
 */
#include <stdlib.h>
#include "timers.h"

struct tree {
    struct node *root;
    struct dice dice;
};

static void *tree_open(unsigned most, uint64_t now_ms)
{
    struct tree *t = calloc(1, sizeof(*t));

    (void)most;
    (void)now_ms;
    if (t)
        t->dice.state = 88172645463325252;
    return t;
}

static inline bool before(const struct node *a, const struct node *b)
{
    return a->at != b->at ? a->at < b->at : a < b;
}

static void tree_start(void *set, struct node *n)
{
    struct tree *t = set;
    struct node **at = &t->root, *rest, **left = &n->left, **right = &n->right;

    n->priority = dice_below(&t->dice, UINT32_MAX);
    while (*at && (*at)->priority >= n->priority)
        at = before(*at, n) ? &(*at)->right : &(*at)->left;
    rest = *at;
    *at = n;
    while (rest) { /* the old subtree is split into the nodes before n and those after n */
        if (before(rest, n)) {
            *left = rest;
            left = &rest->right;
            rest = *left;
        } else {
            *right = rest;
            right = &rest->left;
            rest = *right;
        }
    }
    *left = *right = NULL;
}

/* Joins two trees below *at: every node of left comes before every one of right. */
static void join(struct node **at, struct node *left, struct node *right)
{
    while (left && right) {
        if (left->priority >= right->priority) {
            *at = left;
            at = &left->right;
            left = *at;
        } else {
            *at = right;
            at = &right->left;
            right = *at;
        }
    }
    *at = left ? left : right;
}

static void tree_stop(void *set, struct node *n)
{
    struct node **at = &((struct tree *)set)->root;

    while (*at != n)
        at = before(*at, n) ? &(*at)->right : &(*at)->left;
    join(at, n->left, n->right);
}

static void tree_prolong(void *set, struct node *n, uint64_t at_ms)
{
    tree_stop(set, n);
    n->at = at_ms;
    tree_start(set, n);
}

static struct node *tree_expire(void *set, uint64_t now_ms)
{
    struct node *due = NULL, **at, *n;

    for (;;) {
        at = &((struct tree *)set)->root;
        while (*at && (*at)->left)
            at = &(*at)->left;
        n = *at;
        if (!n || n->at > now_ms)
            return due;
        *at = n->right;
        due_add(&due, n);
    }
}

static uint64_t tree_next(void *set, uint64_t now_ms)
{
    const struct node *n = ((const struct tree *)set)->root;

    if (!n)
        return UINT64_MAX;
    while (n->left)
        n = n->left;
    return n->at > now_ms ? n->at - now_ms : 0;
}

const struct scheme tree_scheme = {
    .name = "tree", .summary = "3: balanced tree", .most = UINT32_MAX,
    .open = tree_open, .close = free, .start = tree_start, .stop = tree_stop,
    .prolong = tree_prolong, .expire = tree_expire, .next = tree_next,
};
