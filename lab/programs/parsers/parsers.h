/* SPDX-License-Identifier: MIT */
/* parsers.h - several parsers of request heads behind one face, so that they can be compared.
 *
 * A parser is fed bytes and tells where in them the parts stand, as offsets from the first byte
 * fed.  Those that are ours follow one grammar, core/http_parse.c's, to the status of a refusal;
 * others follow their own, and corpus.def says where that gives another answer.  What is measured
 * is begin() and one feed(); tell() is for comparing.
 *
 *   states.def  switch.h  goto.c  direct.c   one byte after the other: the same states, three ways
 *   tokens.c                                 a token at a time
 *   rung.c                                   what the server runs
 *   http_parser.c  llhttp.c  pico.c          what others run, from Debian's packages
 */
#ifndef PARSERS_H
#define PARSERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../../../core/limits.h"

/* Whether a header of another parser can be included.  -DOURS_ALONE hides all of them, so that a
 * machine without those packages can be tried on one that has them. */
#ifdef OURS_ALONE
#define HAS(header) 0
#else
#define HAS(header) __has_include(header)
#endif

enum parsed_method { PARSED_GET, PARSED_HEAD, PARSED_OPTIONS, PARSED_OTHER };

struct span {
    uint32_t at, len;
};

struct parsed {
    int status;      /* 0: not refused; else the status, 400 where a parser gives none */
    bool line, head; /* the request line, the whole head was seen */
    uint8_t method;  /* enum parsed_method */
    uint8_t minor;
    struct span target;
    unsigned fields;
    struct {
        struct span name, value;
    } field[HEAD_FIELDS_MAX];
};

enum { PARSER_STATE_BYTES = 16384 }; /* what begin() may use: rung's head is the largest */

struct parser {
    const char *name;
    const char *words;            /* for the list */
    bool ours;                    /* the same grammar */
    unsigned bit;                 /* in struct row's others; 0 of ours */
    bool resumes;                 /* takes a head in pieces; others want all bytes again */
    const char *(*missing)(void); /* why it cannot run here; NULL: it can */
    void (*begin)(void *state);
    void (*feed)(void *state, const char *bytes, size_t n);
    void (*tell)(const void *state, struct parsed *told);
};

extern const struct parser parser_switch, parser_switch_plain, parser_goto, parser_direct,
    parser_memchr, parser_words, parser_rung, parser_http_parser, parser_llhttp, parser_pico;
const char *never_missing(void);

/* Bits of the parsers that answer otherwise. */
enum { NONE = 0, HTTP_PARSER = 1, LLHTTP = 2, PICO = 4 };

/* --- corpus.c ------------------------------------------------------------------------------- */

struct row {
    unsigned status; /* 0: accepted */
    unsigned others; /* who answers otherwise, by rules of its own */
    uint32_t len;
    const char *text;
};

struct corpus {
    const char *name;
    const struct row *row;
    unsigned rows;
    bool heads; /* whole heads; else request lines with their line end */
};
const struct corpus *corpus_of(const char *name); /* NULL: there is no such */

/* Whether the parser gives what the corpus says, and also when cut anywhere; says on stderr what
 * it does not.  How many answers were wrong. */
unsigned check(const struct parser *parser, const struct corpus *corpus, bool cuts);
/* Whether everybody accepts the row, and so it is measured. */
bool row_is_common(const struct row *row);

#endif
