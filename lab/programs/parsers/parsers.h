/* SPDX-License-Identifier: MIT */
/* parsers.h - several parsers of request heads behind one interface, so that they can be compared.
 *
 * A parser is fed bytes and reports where their parts are, as offsets from the first byte fed.  Our
 * parsers follow one grammar, that of core/http_parse.c, down to the status of a refusal.  The
 * others follow their own, and corpus.def says where their answers differ.  Only begin() and one
 * feed() are measured; tell() is for comparing.
 *
 *   states.def  switch.h  goto.c  direct.c   one byte after the other: the same states, three ways
 *   tokens.c                                 a token at a time
 *   rung.c                                   the parser that the server runs
 *   http_parser.c  llhttp.c  pico.c          parsers of others, from Debian's packages
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
    int status;      /* 0: not refused; otherwise the status, 400 if a parser gives none */
    bool line, head; /* the request line was seen, the whole head was seen */
    uint8_t method;  /* enum parsed_method */
    uint8_t minor;
    struct span target;
    unsigned fields;
    struct {
        struct span name, value;
    } field[HEAD_FIELDS_MAX];
};

enum { PARSER_STATE_BYTES = 16384 }; /* memory that begin() may use: rung's head is the largest */

struct parser {
    const char *name;
    const char *words;            /* for the list */
    bool ours;                    /* the same grammar */
    unsigned bit;                 /* in `others` of struct row; 0 for ours */
    bool resumes;                 /* takes a head in pieces; others want all bytes again */
    const char *(*missing)(void); /* why it cannot run here; NULL: it can */
    void (*begin)(void *state);
    void (*feed)(void *state, const char *bytes, size_t n);
    void (*tell)(const void *state, struct parsed *told);
};

extern const struct parser parser_switch, parser_switch_plain, parser_goto, parser_direct,
    parser_memchr, parser_words, parser_rung, parser_http_parser, parser_llhttp, parser_pico;
const char *never_missing(void);

/* Bits of the parsers that answer differently. */
enum { NONE = 0, HTTP_PARSER = 1, LLHTTP = 2, PICO = 4 };

/* --- corpus.c ------------------------------------------------------------------------------- */

struct row {
    unsigned status; /* 0: accepted */
    unsigned others; /* parsers that answer differently, by rules of their own */
    uint32_t len;
    const char *text;
};

struct corpus {
    const char *name;
    const struct row *row;
    unsigned rows;
    bool heads; /* whole heads; false: request lines with their line end */
};
const struct corpus *corpus_of(const char *name); /* NULL: no such corpus */

/* Checks that the parser answers as the corpus says, with cuts also when its input is cut anywhere.
 * Prints the wrong answers to stderr, and returns how many they were. */
unsigned check(const struct parser *parser, const struct corpus *corpus, bool cuts);
/* Whether every parser accepts the row, so that it is measured. */
bool row_is_common(const struct row *row);

#endif
