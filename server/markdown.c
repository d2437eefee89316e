/* SPDX-License-Identifier: MIT */
/* markdown.c - Markdown as HTML by libcmark.
 *
 * HTML in the text is left out, and so are addresses like javascript: (CMARK_OPT_SAFE).  The page's
 * policy lets no image be loaded, so an image becomes a link to it.
 *
 * All memory of one text is a list of blocks, which are freed together.  libcmark does not handle
 * an allocation that fails: at the limit a longjmp() gives the text up, and the blocks are freed.
 */
#include <cmark.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include "markdown.h"

enum { BLOCK_BYTES = 64 << 10, ALIGNED = 16 };

struct block {
    struct block *next;
    size_t used, size;
    _Alignas(ALIGNED) char bytes[];
};

struct arena {
    struct block *first;
    size_t bytes;
    jmp_buf full;
};

/* libcmark's allocator has no argument. */
static _Thread_local struct arena *arena;

/* In front of each piece: its size, for realloc(). */
union piece {
    size_t size;
    _Alignas(ALIGNED) char aligned[ALIGNED];
};

static void *piece_new(size_t size)
{
    size_t all = sizeof(union piece) + (size + ALIGNED - 1) / ALIGNED * ALIGNED;
    struct block *b = arena->first;
    union piece *piece;

    if (!b || b->size - b->used < all) {
        size_t bytes = all < BLOCK_BYTES ? BLOCK_BYTES : all;

        if (size > MARKDOWN_MEMORY_MAX || arena->bytes + bytes > MARKDOWN_MEMORY_MAX)
            longjmp(arena->full, 1);
        b = calloc(1, sizeof(*b) + bytes);
        if (!b)
            longjmp(arena->full, 1);
        *b = (struct block){.next = arena->first, .size = bytes};
        arena->first = b;
        arena->bytes += bytes;
    }
    piece = (union piece *)(b->bytes + b->used);
    b->used += all;
    piece->size = size;
    return piece + 1;
}

static void *piece_calloc(size_t count, size_t size)
{
    return piece_new(count * size); /* libcmark counts in its own text */
}

static void *piece_realloc(void *old, size_t size)
{
    size_t had = old ? ((union piece *)old - 1)->size : 0;
    void *new = size > had ? piece_new(size) : old;

    if (old && new != old)
        memcpy(new, old, had);
    return new;
}

static void piece_free(void *mem)
{
    (void)mem;
}

static cmark_mem memory = {piece_calloc, piece_realloc, piece_free};

static void arena_drop(struct arena *a)
{
    struct block *next;

    for (struct block *b = a->first; b; b = next) {
        next = b->next;
        free(b);
    }
}

static bool is_in_link(cmark_node *node)
{
    while ((node = cmark_node_parent(node)) != NULL)
        if (cmark_node_get_type(node) == CMARK_NODE_LINK)
            return true;
    return false;
}

/* Puts a link to the image, with the same text, in its place; inside a link the text alone. */
static void replace_image(cmark_node *image)
{
    cmark_node *link = is_in_link(image) ? NULL : cmark_node_new_with_mem(CMARK_NODE_LINK, &memory);
    cmark_node *child;

    if (link) {
        cmark_node_set_url(link, cmark_node_get_url(image));
        cmark_node_insert_before(image, link);
    }
    while ((child = cmark_node_first_child(image)) != NULL) {
        if (link)
            cmark_node_append_child(link, child);
        else
            cmark_node_insert_before(image, child);
    }
    if (link && !cmark_node_first_child(link)) {
        child = cmark_node_new_with_mem(CMARK_NODE_TEXT, &memory);
        cmark_node_set_literal(child, cmark_node_get_url(image));
        cmark_node_append_child(link, child);
    }
    cmark_node_unlink(image);
}

static void replace_images(cmark_node *root)
{
    cmark_iter *iter = cmark_iter_new(root);
    cmark_event_type event;

    while ((event = cmark_iter_next(iter)) != CMARK_EVENT_DONE) {
        cmark_node *node = cmark_iter_get_node(iter);

        if (event == CMARK_EVENT_EXIT && cmark_node_get_type(node) == CMARK_NODE_IMAGE)
            replace_image(node);
    }
    cmark_iter_free(iter);
}

static const char *render(struct slice text)
{
    const int options = CMARK_OPT_SAFE | CMARK_OPT_VALIDATE_UTF8;
    cmark_parser *parser = cmark_parser_new_with_mem(options, &memory);
    cmark_node *root;

    cmark_parser_feed(parser, text.ptr, text.len);
    root = cmark_parser_finish(parser);
    replace_images(root);
    return cmark_render_html(root, options);
}

/* The HTML, in the arena; NULL: there was too little memory. */
static __attribute__((noinline)) const char *try_render(struct slice text)
{
    return setjmp(arena->full) == 0 ? render(text) : NULL;
}

char *markdown_html(struct slice text, size_t *len)
{
    struct arena a = {0};
    const char *made;
    char *html = NULL;

    arena = &a;
    made = try_render(text);
    if (made) {
        *len = strlen(made);
        if (*len <= MARKDOWN_BYTES_MAX)
            html = malloc(*len + 1);
        if (html)
            memcpy(html, made, *len + 1);
    }
    arena = NULL;
    arena_drop(&a);
    return html;
}
