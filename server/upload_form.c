/* SPDX-License-Identifier: MIT */
/* upload_form.c - multipart/form-data (RFC 7578, RFC 2046 5.1), as browsers and curl -F send it.
 *
 *   PREAMBLE -> BOUNDARY -> LINE ... LINE -> DATA -> [KEEPING] -> BOUNDARY -> ... -> EPILOGUE
 *
 * Each part with a file's name becomes a file, as soon as its last byte has come; other parts are
 * read and dropped.  A file that cannot be kept does not end the form, because a browser shows no
 * answer that comes before it has sent everything: the other files are kept, and the answer is that
 * of the first that was not.  A form that is malformed is refused at once.
 *
 * A delimiter begins with its only CR: so where it stops matching, no other match can have begun
 * inside it, except at the byte that did not match.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "upload.h"

enum {
    FORM_LINE_BYTES_MAX = 2048, /* of a part's head: a name of 255 bytes may be written as %XX */
    FORM_HEAD_BYTES_MAX = 8192, /* of all its lines */
    FORM_PARTS_MAX = 1024,
    DELIMITER_BYTES_MAX = 4 + BOUNDARY_BYTES_MAX
};

/* CLOSING: behind one dash.  PADDING_END: behind the CR of a boundary's line.  KEEPING: a file is
 * complete and gets its name. */
enum form_state { PREAMBLE, DATA, KEEPING, BOUNDARY, CLOSING, PADDING_END, LINE, EPILOGUE };

struct form {
    enum form_state state;
    unsigned parts;
    size_t delimiter_len;
    size_t matched;    /* bytes of the delimiter that were read and are not data yet */
    size_t given;      /* ... of which it is known that they are data, and that were taken */
    size_t line_len, head_bytes;
    size_t name_len;   /* of the part's file; 0: it has none */
    bool long_;        /* the name is too long */
    char name[NAME_BYTES_MAX];
    char delimiter[DELIMITER_BYTES_MAX];
    char line[FORM_LINE_BYTES_MAX];
};

/* --- Parameters: ; name=value ; name="value" -------------------------------------------------- */

struct value {
    char *out;
    size_t cap, len;
    bool long_;
};

static void put(struct value *v, char c)
{
    if (v->len < v->cap)
        v->out[v->len++] = c;
    else
        v->long_ = true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(struct slice *s)
{
    while (s->len && is_blank(*s->ptr)) {
        s->ptr++;
        s->len--;
    }
}

/* Browsers write a quote as %22 and a backslash as itself; others put a backslash before each.  So
 * it stands for itself unless one of the two follows. */
static bool read_quoted(struct slice *s, struct value *v)
{
    size_t i = 1;

    for (; i < s->len && s->ptr[i] != '"'; i++) {
        if (s->ptr[i] == '\\' && i + 1 < s->len && (s->ptr[i + 1] == '"' || s->ptr[i + 1] == '\\'))
            i++;
        put(v, s->ptr[i]);
    }
    if (i >= s->len)
        return false;
    *s = (struct slice){s->ptr + i + 1, s->len - i - 1};
    return true;
}

static bool read_value(struct slice *s, struct value *v)
{
    bool some = false;

    if (s->len && *s->ptr == '"')
        return read_quoted(s, v);
    while (s->len && *s->ptr != ';' && !is_blank(*s->ptr)) {
        put(v, *s->ptr);
        s->ptr++;
        s->len--;
        some = true;
    }
    return some;
}

/* The first word, and the value of that parameter in what follows it; v->len 0: it is not there.
 * False: it is malformed, or is there twice. */
static bool read_parameter(struct slice s, const char *word, const char *wanted, struct value *v)
{
    bool found = false;
    size_t n = 0;

    while (n < s.len && s.ptr[n] != ';' && !is_blank(s.ptr[n]))
        n++;
    if (!slice_is_nocase((struct slice){s.ptr, n}, word))
        return false;
    s = (struct slice){s.ptr + n, s.len - n};
    for (;;) {
        struct value other = {0};
        struct slice name;
        bool is_it;

        skip_blanks(&s);
        if (!s.len)
            return true;
        if (*s.ptr != ';')
            return false;
        s = (struct slice){s.ptr + 1, s.len - 1};
        skip_blanks(&s);
        for (n = 0; n < s.len && s.ptr[n] != '=' && s.ptr[n] != ';'; n++)
            continue;
        name = (struct slice){s.ptr, n};
        if (n == s.len || s.ptr[n] != '=')
            return false;
        s = (struct slice){s.ptr + n + 1, s.len - n - 1};
        is_it = slice_is_nocase(name, wanted);
        if ((is_it && found) || !read_value(&s, is_it ? v : &other))
            return false;
        found = found || is_it;
    }
}

/* --- Begin and end ---------------------------------------------------------------------------- */

/* RFC 2046 5.1.1 says which bytes a boundary may have.  Here any byte is accepted, except blanks at
 * the end and line ends, which no field has. */
int form_open(struct form **form, struct slice type)
{
    struct form *f = calloc(1, sizeof(*f));
    struct value boundary = {.cap = BOUNDARY_BYTES_MAX};

    if (!f)
        return -503;
    memcpy(f->delimiter, "\r\n--", 4);
    boundary.out = f->delimiter + 4;
    if (!type.ptr || !read_parameter(type, "multipart/form-data", "boundary", &boundary) ||
        !boundary.len || boundary.long_ || memchr(boundary.out, '\r', boundary.len)) {
        free(f);
        return -415;
    }
    f->delimiter_len = 4 + boundary.len;
    f->matched = 2; /* the first one may have no line before it */
    *form = f;
    return 0;
}

int form_done(const struct upload *u)
{
    if (u->form->state != EPILOGUE)
        return -400; /* it was cut short */
    if (u->status)
        return -(int)u->status;
    return u->kept || u->browser ? 0 : -400; /* a browser sends a form without a file, too */
}

/* --- Parts ------------------------------------------------------------------------------------ */

/* The file is not kept, and its bytes are dropped. */
static void give_up(struct upload *u, long status)
{
    if (!u->status)
        u->status = (unsigned)-status;
    if (u->file >= 0)
        close(u->file);
    u->file = -1;
    u->have = 0;
}

/* The head of a part is complete. */
static long begin_part(struct upload *u)
{
    struct form *f = u->form;
    int err;

    if (++f->parts > FORM_PARTS_MAX)
        return -413;
    f->state = DATA;
    if (!f->name_len)
        return 1;
    err = f->long_ ? -414 : upload_name(u, (struct slice){f->name, f->name_len});
    if (!err) {
        u->file_bytes = 0;
        u->file = upload_file_open(u->folder);
        err = u->file < 0 ? u->file : 0;
    }
    if (err)
        give_up(u, err);
    return 1;
}

/* A line of a part's head, without its end. */
static long read_line(struct upload *u, struct slice line)
{
    static const char name[] = "content-disposition:";
    struct form *f = u->form;
    struct value file = {.out = f->name, .cap = sizeof(f->name)};

    if (!line.len)
        return begin_part(u);
    if (line.len < sizeof(name) - 1 ||
        !slice_is_nocase((struct slice){line.ptr, sizeof(name) - 1}, name))
        return 1;
    line = (struct slice){line.ptr + sizeof(name) - 1, line.len - (sizeof(name) - 1)};
    skip_blanks(&line);
    while (line.len && is_blank(line.ptr[line.len - 1]))
        line.len--;
    if (f->name_len || !read_parameter(line, "form-data", "filename", &file))
        return -400;
    f->name_len = file.len;
    f->long_ = file.long_;
    return 1;
}

static long take_line(struct upload *u, char c)
{
    struct form *f = u->form;
    size_t n = f->line_len;
    long used;

    if (c != '\n') {
        if ((n && f->line[n - 1] == '\r') || !c)
            return -400;
        if (n == sizeof(f->line) || ++f->head_bytes > FORM_HEAD_BYTES_MAX)
            return -431;
        f->line[f->line_len++] = c;
        return 1;
    }
    if (!n || f->line[n - 1] != '\r')
        return -400;
    used = read_line(u, (struct slice){f->line, n - 1});
    f->line_len = used < 0 ? n : 0; /* an error stays one */
    return used;
}

/* --- Boundaries and data ---------------------------------------------------------------------- */

/* Returns how many bytes of the file were taken: all, if there is no file. */
static long take_bytes(struct loop *l, const struct conn *c, struct upload *u, struct slice bytes)
{
    long taken = u->file < 0 ? (long)bytes.len : upload_bytes(l, c, u, bytes);

    if (taken >= 0 || taken == -EINPROGRESS)
        return taken;
    give_up(u, taken);
    return (long)bytes.len;
}

/* The bytes that matched so far were data after all. */
static long take_matched(struct loop *l, const struct conn *c, struct upload *u)
{
    struct form *f = u->form;

    while (f->given < f->matched) {
        long n = take_bytes(l, c, u,
                            (struct slice){f->delimiter + f->given, f->matched - f->given});

        if (n < 0)
            return n;
        f->given += (size_t)n;
    }
    f->given = f->matched = 0;
    return 0;
}

static long take_data(struct loop *l, const struct conn *c, struct upload *u, struct slice bytes)
{
    struct form *f = u->form;
    const char *cr;

    if (f->matched && *bytes.ptr == f->delimiter[f->matched] && !f->given) {
        if (++f->matched < f->delimiter_len)
            return 1;
        f->matched = 0;
        f->state = u->file < 0 ? BOUNDARY : KEEPING;
        return 1;
    }
    if (f->matched)
        return take_matched(l, c, u);
    cr = memchr(bytes.ptr, '\r', bytes.len);
    if (cr == bytes.ptr) {
        f->matched = 1;
        return 1;
    }
    bytes.len = cr ? (size_t)(cr - bytes.ptr) : bytes.len;
    return take_bytes(l, c, u, bytes);
}

static long keep(struct loop *l, const struct conn *c, struct upload *u)
{
    int err = upload_keep(l, c, u);

    if (err == -EINPROGRESS)
        return err;
    if (err) {
        give_up(u, err);
    } else {
        close(u->file);
        u->file = -1;
    }
    u->form->state = BOUNDARY;
    return 0;
}

/* The rest of a delimiter's line. */
static long take_boundary(struct form *f, char c)
{
    if (f->state == BOUNDARY && (c == '-' || c == '\r' || is_blank(c))) {
        f->state = c == '-' ? CLOSING : c == '\r' ? PADDING_END : BOUNDARY;
        return 1;
    }
    if (f->state == CLOSING && c == '-') {
        f->state = EPILOGUE;
        return 1;
    }
    if (f->state != PADDING_END || c != '\n')
        return -400;
    f->state = LINE;
    f->line_len = f->head_bytes = f->name_len = 0;
    f->long_ = false;
    return 1;
}

/* Returns how many bytes were used; 0: none, but the state has changed. */
static long step(struct loop *l, const struct conn *c, struct upload *u, struct slice bytes)
{
    switch (u->form->state) {
    case PREAMBLE:
    case DATA:
        return take_data(l, c, u, bytes);
    case KEEPING:
        return keep(l, c, u);
    case LINE:
        return take_line(u, *bytes.ptr);
    case EPILOGUE:
        return (long)bytes.len;
    default:
        return take_boundary(u->form, *bytes.ptr);
    }
}

long form_put(struct loop *l, const struct conn *c, struct upload *u, struct slice bytes)
{
    size_t at = 0;
    long used = 0;

    while (at < bytes.len && used >= 0) {
        used = step(l, c, u, (struct slice){bytes.ptr + at, bytes.len - at});
        at += used > 0 ? (size_t)used : 0;
    }
    return at ? (long)at : used;
}
