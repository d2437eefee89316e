/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* listing_out.h - how a listing writes: text into a bounded buffer, escaped for where it goes.
 *
 * Nothing is written past cap: text that does not fit sets full, and the step that wrote it is
 * undone and repeated in the next buffer.  Only the files core/listing*.c include this.
 */
#ifndef CORE_LISTING_OUT_H
#define CORE_LISTING_OUT_H
#include "listing.h"

struct listing_out {
    char *buf;
    size_t len, cap;
    bool full;
};

/* One step of a format: writes one piece.  On FULL nothing in the listing may have changed. */
enum listing_step { STEP_FULL, STEP_AGAIN, STEP_DONE, STEP_DRY };
struct listing_format_step {
    /* NULL ends a format's steps. */
    enum listing_step (*write)(struct listing *l, struct listing_out *o);
};

/* Bytes that do not fit end the buffer, so that nothing shorter that follows is written either. */
static inline void out_bytes(struct listing_out *o, const char *bytes, size_t n)
{
    if (n > o->cap - o->len) {
        o->full = true;
        o->cap = o->len;
        return;
    }
    memcpy(o->buf + o->len, bytes, n);
    o->len += n;
}

/* Our own text, NUL-terminated; not escaped.  Inline, so that the length of a literal is known. */
static inline void out_text(struct listing_out *o, const char *text)
{
    out_bytes(o, text, strlen(text));
}

void out_number(struct listing_out *o, uint64_t n);
void out_grouped(struct listing_out *o, uint64_t n); /* 1,234,567 */
void out_human(struct listing_out *o, uint64_t bytes); /* 1.2 KiB */
void out_date(struct listing_out *o, int64_t unix_s); /* 2026-01-31, years 1 to 9999 */
void out_time(struct listing_out *o, int64_t unix_s); /* 23:59:59 */

/* Date and time of the held entry. */
struct listing_stamp {
    char date[10], time[8];
};
void listing_stamp(struct listing *l, struct listing_stamp *stamp);

/* Characters that a reader would act on rather than show are replaced: controls, and those that
 * change the direction of text or break lines. */
void out_html(struct listing_out *o, struct slice s);  /* text and quoted attributes */
void out_url(struct listing_out *o, struct slice s);   /* one component, or the value of a query */
void out_json(struct listing_out *o, struct slice s);  /* inside quotes */
void out_plain(struct listing_out *o, struct slice s); /* safe on a terminal */

/* Bytes of the character at the start of s: a whole UTF-8 sequence (RFC 3629), or 0 where there
 * is none. */
size_t out_utf8_len(struct slice s);

/* Makes sure that an entry is held.  STEP_AGAIN: one is; STEP_DONE: there are no more; STEP_DRY:
 * there is none now. */
enum listing_step listing_hold(struct listing *l);
/* Whether the held entry can be requested, so that it gets a link. */
bool listing_links(const struct listing *l);
/* The held entry has been written. */
enum listing_step listing_wrote(struct listing *l, const struct listing_out *o);

/* Writes the query that asks for that view, with `amp` between its parts. */
void out_query(struct listing_out *o, const struct listing_view *view, const char *amp);

static inline bool listing_is_page(const struct listing_view *view)
{
    return view->offset || view->limit;
}

extern const struct listing_format_step listing_html_steps[];

#endif
