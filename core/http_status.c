/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_status.c - answers that are a status with a few words: errors, the redirect of a folder,
 * OPTIONS.
 *
 * The answers repeat nothing that the client sent except a folder's path and query, encoded for a
 * URL and escaped for HTML.  The site may have a page of its own; otherwise browsers get a small
 * page that needs no other file, and all other clients get one line.
 */
#include "http_inside.h"

const char *http_status_text(unsigned status)
{
    switch (status) {
#define X(code, reason, meaning) \
    case code: \
        return reason;
#include "status.def"
#undef X
    }
    return "Unknown";
}

/* The longest Location that the redirect's page repeats: escaped it is five times as long, and
 * fits. */
enum { LINK_BYTES_MAX = 256 };

/* The rest of that head, with the fields of the host, if it has any, and a page without a link. */
enum { AFTER_LOCATION_BYTES_MAX = 256 };

/* Folders that the link of an error page climbs. */
enum { HOME_LEVELS_MAX = 16 };

/* RFC 9110 10.2.1 */
static void put_allow(struct answer *a)
{
    const struct http_host *host = http_host_of(a->c);

    TEXT_LITERAL(&a->text, "Allow: ");
    text_string(&a->text, host->store ? host->store->allow(host->conn.ctx, a->c, a->head) :
                                        "GET, HEAD, OPTIONS");
    TEXT_LITERAL(&a->text, "\r\n");
}

/* Fields that some statuses must have. */
static void put_special(struct answer *a)
{
    switch (a->status) {
    case 401: /* RFC 7617 2 */
        TEXT_LITERAL(&a->text, "WWW-Authenticate: Basic realm=\"rung\", charset=\"UTF-8\"\r\n");
        break;
    case 405: /* RFC 9110 15.5.6 */
        put_allow(a);
        break;
    case 416: /* RFC 9110 15.5.17 */
        TEXT_LITERAL(&a->text, "Content-Range: bytes */");
        text_number(&a->text, a->size);
        TEXT_LITERAL(&a->text, "\r\n");
        break;
    case 429: /* RFC 6585 4 */
        TEXT_LITERAL(&a->text, "Retry-After: ");
        text_number(&a->text, a->retry_s ? a->retry_s : http_host_of(a->c)->retry_s);
        TEXT_LITERAL(&a->text, "\r\n");
        break;
    case 503: /* RFC 9110 10.2.3 */
        TEXT_LITERAL(&a->text, "Retry-After: 1\r\n");
        break;
    }
}

/* Length, body and the end of an answer whose body is short. */
static void finish(struct answer *a, const char *body, size_t n)
{
    bool sends = a->head->method != HTTP_HEAD && n > 0;
    size_t cap;

    http_put_length(&a->text, n);
    answer_close(a);
    if (sends) {
        memcpy(conn_space(a->c, &cap), body, n);
        conn_wrote(a->c, n, true);
    }
    answer_end(a, answer_note(a, sends ? n : 0));
}

/* --- Errors ----------------------------------------------------------------------------------- */

/* The folder at the top, relative to the path that was asked for, so that the link is right behind
 * any prefix.  A deeper path has been climbed long before its end. */
static void put_home(struct text *t, struct slice path)
{
    size_t levels = 0, i;

    for (i = 1; i < path.len; i++)
        levels += path.ptr[i] == '/';
    if (path.len == 0 || levels > HOME_LEVELS_MAX) {
        TEXT_LITERAL(t, "/");
        return;
    }
    TEXT_LITERAL(t, "./");
    while (levels--)
        TEXT_LITERAL(t, "../");
}

/* The colours are those of a listing: see listing_page.h. */
static void put_style(struct text *t)
{
    TEXT_LITERAL(t, "<style>:root{color-scheme:light dark;--bg:#f6f6f3;--card:#fff;--fg:#1d2024;"
        "--dim:#656b73;--line:#e6e6e1;--link:#1a4fb4}"
        "@media(prefers-color-scheme:dark){:root{--bg:#121417;--card:#1a1d21;--fg:#e5e6e3;"
        "--dim:#9aa1aa;--line:#2a2e34;--link:#93b8ff}}"
        "body{margin:0 auto;max-width:34rem;padding:clamp(1rem,12vh,8rem) 1rem;"
        "background:var(--bg);color:var(--fg);font:16px/1.45 system-ui,-apple-system,'Segoe UI',"
        "Roboto,'Liberation Sans',sans-serif}"
        "main{background:var(--card);border:1px solid var(--line);border-radius:12px;"
        "padding:1.6rem 2rem}h1{margin:0;font-size:1.35rem;line-height:1.3}"
        "h1 span{color:var(--dim);font-weight:400;margin-right:.4em}p{margin:.7rem 0 1.3rem}"
        "a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}"
        ":focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:4px}"
        "svg{width:1.25em;height:1.25em;fill:currentColor;vertical-align:-.25em;"
        "margin-right:.4em}</style>\n");
}

static void write_html(struct text *t, const struct http_head *head, unsigned status)
{
    TEXT_LITERAL(t, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
        "<link rel=\"icon\" href=\"data:,\"><title>");
    text_number(t, status);
    TEXT_LITERAL(t, " ");
    text_string(t, http_status_text(status));
    TEXT_LITERAL(t, "</title>\n");
    put_style(t);
    TEXT_LITERAL(t, "</head>\n<body>\n<main><h1><span>");
    text_number(t, status);
    TEXT_LITERAL(t, "</span>");
    text_string(t, http_status_text(status));
    TEXT_LITERAL(t, "</h1>\n<p>");
    text_string(t, http_status_meaning(status));
    TEXT_LITERAL(t, "</p>\n<a href=\"");
    put_home(t, head->path);
    TEXT_LITERAL(t, "\"><svg viewBox=\"0 0 24 24\" aria-hidden=\"true\">"
        "<path d=\"M12 3 2 12h3v8h5v-5h4v5h5v-8h3z\"/></svg>Top folder</a></main>\n"
        "</body></html>\n");
}

static void write_line(struct text *t, unsigned status)
{
    text_number(t, status);
    TEXT_LITERAL(t, " ");
    text_string(t, http_status_text(status));
    TEXT_LITERAL(t, ": ");
    text_string(t, http_status_meaning(status));
    TEXT_LITERAL(t, "\n");
}

/* Sends the site's page for that status: a body like another, but without validators and ranges,
 * because it is not what was asked for.  0, -EINPROGRESS, or another -errno: there is no page. */
static int write_page(struct answer *a, unsigned status)
{
    const struct http_host *host = http_host_of(a->c);
    struct source *page;
    int err = host->page(host->conn.ctx, status, &page);

    if (err)
        return err;
    if (page->kind != SOURCE_BODY) {
        host->conn.release(host->conn.ctx, page);
        return -ENOENT;
    }
    answer_open(a, status);
    put_special(a);
    TEXT_LITERAL(&a->text, "Content-Type: ");
    text_string(&a->text, page->type);
    TEXT_LITERAL(&a->text, "\r\n");
    http_put_coding(&a->text, page->coding);
    http_put_length(&a->text, page->size);
    answer_close(a);
    answer_send(a, page, (struct http_range){0, page->size});
    return 0;
}

int http_status_write(struct answer *a, unsigned status)
{
    struct http_work *work = conn_work(a->c);
    struct text page = {work->page, work->page + sizeof(work->page)};
    int err = write_page(a, status);

    if (!err || err == -EINPROGRESS)
        return err;
    answer_open(a, status);
    put_special(a);
    if (http_accept_html(a->head)) {
        write_html(&page, a->head, status);
        TEXT_LITERAL(&a->text, "Content-Type: text/html; charset=utf-8\r\nVary: Accept\r\n");
    } else {
        write_line(&page, status);
        TEXT_LITERAL(&a->text, "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\n");
    }
    finish(a, work->page, (size_t)(page.at - work->page));
    return 0;
}

int http_reply_status(struct conn *c, const struct http_head *head, unsigned status,
                      bool keep_alive)
{
    struct answer a = {.c = c, .head = head, .keep_alive = keep_alive};

    (void)answer_aim(c, head);
    return http_status_write(&a, status);
}

/* --- The redirect of a folder ----------------------------------------------------------------- */

static size_t query_bytes(struct slice query)
{
    return query.ptr ? 3 * query.len + 1 : 0;
}

/* Whether that many more bytes of Location leave room for what follows it. */
static bool has_room(const struct answer *a, size_t bytes)
{
    size_t after = AFTER_LOCATION_BYTES_MAX;

    if (http_host_of(a->c)->fields)
        after += HOST_FIELDS_BYTES_MAX;
    return bytes + after <= (size_t)(a->text.end - a->text.at);
}

static void put_query(struct text *t, struct slice query)
{
    if (!query.ptr)
        return;
    TEXT_LITERAL(t, "?");
    text_query(t, query);
}

/* The folder's path with its final slash and the query as it was (RFC 9110 10.2.2).  It begins
 * with one slash: with two it would name a host.  False: it is too long. */
static bool put_location(struct answer *a, const struct http_ask *ask, struct slice *location)
{
    struct slice path = ask->path;
    struct text *t = &a->text;

    while (path.len > 1 && path.ptr[1] == '/') {
        path.ptr++;
        path.len--;
    }
    TEXT_LITERAL(t, "Location: ");
    location->ptr = t->at;
    t->at += path_encode(t->at, path.ptr, path.len); /* fits: see REPLY_HEAD_BYTES_MAX */
    TEXT_LITERAL(t, "/");
    if (!has_room(a, query_bytes(ask->query)))
        return false;
    put_query(t, ask->query);
    location->len = (size_t)(t->at - location->ptr);
    TEXT_LITERAL(t, "\r\n");
    return true;
}

/* Ends the page of a redirect, in work->page, with a link to where it leads. */
static void finish_linked(struct answer *a, struct text *page, struct slice location)
{
    struct http_work *work = conn_work(a->c);

    if (location.len <= LINK_BYTES_MAX) {
        TEXT_LITERAL(page, ": <a href=\"");
        text_html(page, location);
        TEXT_LITERAL(page, "\">go there</a>");
    }
    TEXT_LITERAL(page, ".</p>\n");
    finish(a, work->page, (size_t)(page->at - work->page));
}

int http_status_redirect(struct answer *a, const struct http_ask *ask)
{
    struct http_work *work = conn_work(a->c);
    struct text page = {work->page, work->page + sizeof(work->page)};
    struct slice location;

    answer_open(a, 301);
    if (!put_location(a, ask, &location))
        return http_status_write(a, 414); /* begins again at the same place: nothing was queued */
    TEXT_LITERAL(&a->text, "Content-Type: text/html; charset=utf-8\r\n");
    TEXT_LITERAL(&page, "<!DOCTYPE html>\n<title>Moved Permanently</title>\n"
                        "<p>This folder's address ends with a slash");
    finish_linked(a, &page, location);
    return 0;
}

/* --- A redirect of the host's ----------------------------------------------------------------- */

int http_status_moved(struct answer *a, const struct http_ask *ask, const struct source *to)
{
    struct http_work *work = conn_work(a->c);
    struct text page = {work->page, work->page + sizeof(work->page)};
    struct slice location, query = ask->query;

    if (memchr(to->bytes, '?', (size_t)to->size))
        query.ptr = NULL;
    answer_open(a, to->status);
    TEXT_LITERAL(&a->text, "Location: ");
    if (!has_room(a, (size_t)to->size + query_bytes(query)))
        return http_status_write(a, 414); /* begins again at the same place: nothing was queued */
    location.ptr = a->text.at;
    text_put(&a->text, to->bytes, (size_t)to->size);
    put_query(&a->text, query);
    location.len = (size_t)(a->text.at - location.ptr);
    TEXT_LITERAL(&a->text, "\r\nContent-Type: text/html; charset=utf-8\r\n");
    TEXT_LITERAL(&page, "<!DOCTYPE html>\n<title>");
    text_string(&page, http_status_text(to->status));
    TEXT_LITERAL(&page, "</title>\n<p>This is at another address");
    finish_linked(a, &page, location);
    return 0;
}

/* --- The redirect to https -------------------------------------------------------------------- */

/* RFC 9110 15.4.9: 308 keeps the method.  The target fits: see REPLY_HEAD_BYTES_MAX. */
void http_status_secure(struct answer *a, struct slice authority)
{
    static const char body[] = "308 Permanent Redirect: This address is served by https.\n";
    const struct http_head *head = a->head;

    answer_open(a, 308);
    TEXT_LITERAL(&a->text, "Location: https://");
    text_put(&a->text, authority.ptr, authority.len);
    if (head->path.len && head->path.ptr[0] == '/')
        text_put(&a->text, head->path.ptr, head->path.len);
    else
        TEXT_LITERAL(&a->text, "/");
    if (head->query.ptr) {
        TEXT_LITERAL(&a->text, "?");
        text_put(&a->text, head->query.ptr, head->query.len);
    }
    TEXT_LITERAL(&a->text, "\r\nContent-Type: text/plain; charset=utf-8\r\n");
    finish(a, body, sizeof(body) - 1);
}

/* --- OPTIONS (RFC 9110 9.3.7): the same for "*" and every path -------------------------------- */

void http_status_options(struct answer *a)
{
    answer_open(a, 200);
    put_allow(a);
    finish(a, NULL, 0);
}

/* --- A body was kept -------------------------------------------------------------------------- */

void http_status_stored(struct answer *a, const struct http_stored *stored)
{
    struct http_work *work = conn_work(a->c);
    struct text page = {work->page, work->page + sizeof(work->page)};

    answer_open(a, stored->status);
    TEXT_LITERAL(&a->text, "Location: ");
    text_put(&a->text, stored->location.ptr, stored->location.len);
    TEXT_LITERAL(&a->text, "\r\nContent-Type: text/plain; charset=utf-8\r\n");
    write_line(&page, stored->status);
    finish(a, work->page, (size_t)(page.at - work->page));
}

unsigned http_status_of_error(int err)
{
    switch (err) {
    case -ENOENT:
    case -ENAMETOOLONG:
        return 404;
    case -EKEYREJECTED:
        return 401;
    case -EDQUOT:
        return 429;
    case -EACCES:
    case -EPERM:
        return 403;
    case -EHOSTUNREACH:
        return 421;
    case -EMFILE:
    case -ENFILE:
    case -ENOMEM:
    case -EAGAIN:
    case -ESTALE: /* the site itself is gone */
        return 503;
    default:
        return 500;
    }
}
