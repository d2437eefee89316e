/* SPDX-License-Identifier: MIT */
/* corpus.c - the rows of corpus.def, and whether a parser answers them as it says.
 *
 * The server's own parser is the reference for the places of all parts.  Each piece is fed from
 * memory of its own that ends with it, so that valgrind sees a read beyond it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "parsers.h"

static const struct row lines[] = {
#define HEAD(...)
#define LINE(status, others, text) {status, others, sizeof(text) - 1, text},
#include "corpus.def"
#undef LINE
#undef HEAD
};

static const struct row heads[] = {
#define LINE(...)
#define HEAD(status, others, text) {status, others, sizeof(text) - 1, text},
#include "corpus.def"
};

const struct corpus *corpus_of(const char *name)
{
    static const struct corpus corpora[] = {
        {"lines", lines, sizeof(lines) / sizeof(lines[0]), false},
        {"heads", heads, sizeof(heads) / sizeof(heads[0]), true},
    };
    unsigned i;

    for (i = 0; i < sizeof(corpora) / sizeof(corpora[0]); i++)
        if (strcmp(corpora[i].name, name) == 0)
            return &corpora[i];
    return NULL;
}

bool row_is_common(const struct row *row)
{
    return row->status == 0 && row->others == NONE;
}

static char *copy(const char *bytes, size_t n)
{
    char *copied = malloc(n ? n : 1);

    if (!copied)
        abort();
    return memcpy(copied, bytes, n);
}

/* Feeds the row in two pieces, the second from byte cut on; a parser that does not resume gets the
 * whole row after the first piece.  False: the first piece was taken for a whole head, or refused
 * with another status than the whole row. */
static bool answer(const struct parser *parser, const struct row *row, uint32_t cut,
                   struct parsed *told)
{
    _Alignas(16) static char state[PARSER_STATE_BYTES];
    uint32_t from = parser->resumes ? cut : 0;
    char *first = copy(row->text, cut), *rest = copy(row->text + from, row->len - from);
    struct parsed half = {0};

    parser->begin(state);
    if (cut > 0) {
        parser->feed(state, first, cut);
        parser->tell(state, &half);
    }
    if (!parser->resumes)
        parser->begin(state);
    if (!parser->resumes || half.status == 0)
        parser->feed(state, rest, row->len - from);
    parser->tell(state, told);
    free(first);
    free(rest);
    return !half.head && (half.status == 0 || half.status == told->status);
}

static bool span_same(struct span a, struct span b)
{
    return a.len == b.len && (a.at == b.at || a.len == 0);
}

/* strictly: compares the status of a refusal too. */
static bool same(const struct parsed *a, const struct parsed *b, bool strictly)
{
    unsigned i;

    if (strictly ? a->status != b->status : (a->status == 0) != (b->status == 0))
        return false;
    if (a->status != 0)
        return true;
    if (a->line != b->line || a->head != b->head || a->method != b->method ||
        a->minor != b->minor || !span_same(a->target, b->target) || a->fields != b->fields)
        return false;
    for (i = 0; i < a->fields; i++)
        if (!span_same(a->field[i].name, b->field[i].name) ||
            !span_same(a->field[i].value, b->field[i].value))
            return false;
    return true;
}

static void say(const struct parser *parser, const struct row *row, const char *what)
{
    uint32_t i;
    unsigned char c;

    fprintf(stderr, "%s: %s: ", parser->name, what);
    for (i = 0; i < row->len; i++) {
        c = (unsigned char)row->text[i];
        fprintf(stderr, c < 0x20 || c >= 0x7f ? "\\x%02x" : "%c", c);
    }
    fputc('\n', stderr);
}

static const char *wrong(const struct parser *parser, const struct row *row, bool cuts)
{
    static struct parsed want, whole, cut;
    bool apart = (row->others & parser->bit) != 0;
    uint32_t i;

    answer(&parser_rung, row, 0, &want);
    if ((unsigned)want.status != row->status || want.line != (row->status == 0))
        return "not what the corpus says";
    answer(parser, row, 0, &whole);
    if (same(&whole, &want, parser->ours) == apart)
        return apart ? "answers like the others, and the corpus says not" : "answers otherwise";
    for (i = 1; cuts && i < row->len; i++)
        if (!answer(parser, row, i, &cut) || !same(&cut, &whole, true))
            return "answers otherwise when cut";
    return NULL;
}

unsigned check(const struct parser *parser, const struct corpus *corpus, bool cuts)
{
    unsigned i, bad = 0;
    const char *what;

    for (i = 0; i < corpus->rows; i++) {
        what = wrong(parser, &corpus->row[i], cuts);
        if (what) {
            say(parser, &corpus->row[i], what);
            bad++;
        }
    }
    return bad;
}
