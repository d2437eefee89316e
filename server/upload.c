/* SPDX-License-Identifier: MIT */
/* upload.c - decides which requests may store a file, and where; see upload.h.
 *
 * A request is checked in this order: the host's name, the address's limit, the client's address
 * and password, as for every request; then the path; then the page that sends it.  A browser sends
 * forms to any server, with the user's password and from within the user's network, whatever page
 * has the form.  So a request that a page of another site has made is refused: the browser says so
 * in Sec-Fetch-Site, or in Origin.  Programs send neither, and are not refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "address_limits.h"
#include "aim.h"
#include "hosts.h"
#include "upload.h"

/* --- The request ------------------------------------------------------------------------------ */

/* The value of the only field of that name; ptr NULL: there is none; len 0: none that counts. */
static struct slice field_of(const struct http_head *head, const char *name)
{
    struct slice value = {NULL, 0};

    for (unsigned i = 0; i < head->fields; i++) {
        if (head->field[i].id != FIELD_OTHER || !slice_is_nocase(head->field[i].name, name))
            continue;
        value = value.ptr ? (struct slice){"", 0} : head->field[i].value;
    }
    return value;
}

/* Whether a page of another site has made the request; *browser: whether any page has. */
static bool is_foreign(const struct http_head *head, bool *browser)
{
    struct slice site = field_of(head, "sec-fetch-site"), origin = field_of(head, "origin");
    struct slice own = hosts_authority(head);
    const char *at;

    *browser = site.ptr || origin.ptr;
    if (site.ptr)
        return !slice_is(site, "same-origin") && !slice_is(site, "none");
    if (!origin.ptr)
        return false;
    at = origin.len ? memchr(origin.ptr, ':', origin.len) : NULL;
    if (!at || origin.ptr + origin.len - at < 3 || at[1] != '/' || at[2] != '/')
        return true; /* "null" is one of them */
    origin.len -= (size_t)(at + 3 - origin.ptr);
    origin.ptr = at + 3;
    return origin.len != own.len || strncasecmp(origin.ptr, own.ptr, own.len) != 0;
}

static bool is_in(const struct upload_to *to, struct slice path)
{
    size_t n = to && to->at ? strlen(to->at) : 0;

    return n && path.len >= n && memcmp(path.ptr, to->at, n) == 0;
}

static bool is_form(const struct http_head *head)
{
    return slice_is(head->method_text, "POST");
}

/* What the head alone says: 0 or -status. */
static int judge(const struct upload_to *to, const struct http_ask *ask, bool *browser)
{
    const struct http_head *head = ask->from;
    bool folder = ask->path.ptr[ask->path.len - 1] == '/';
    struct slice coding = field_of(head, "content-encoding");

    if (!is_in(to, ask->path) || is_form(head) != folder)
        return -405;
    if (upload_is_hidden(to->rules, ask->path) || is_foreign(head, browser))
        return -403;
    if (field_of(head, "content-range").ptr) /* RFC 9110 14.5: a part is not stored as the whole */
        return -400;
    if (coding.ptr && !slice_is_nocase(coding, "identity"))
        return -415;
    if (http_field(head, FIELD_IF_MATCH).ptr) /* RFC 9110 13.1.1: there is nothing yet */
        return -412;
    return head->framing == FRAMING_LENGTH && head->content_length > to->bytes_max ? -413 : 0;
}

/* The folder, and for PUT the file in it. */
static int open_file(struct upload *u, const struct http_ask *ask)
{
    const struct http_head *head = ask->from;
    int err;

    u->path_len = ask->path.len;
    while (ask->path.ptr[u->path_len - 1] != '/')
        u->path_len--;
    memcpy(u->path, ask->path.ptr, u->path_len);
    u->path[u->path_len] = '\0';
    u->folder = upload_folder_open(u->to->root_fd, u->path);
    if (u->folder < 0)
        return u->folder;
    if (head->framing == FRAMING_LENGTH && !upload_fits(u->folder, head->content_length))
        return -507;
    if (is_form(head))
        return form_open(&u->form, field_of(head, "content-type"));
    err = upload_name(u, (struct slice){ask->path.ptr + u->path_len, ask->path.len - u->path_len});
    if (!err) {
        u->file = upload_file_open(u->folder);
        err = u->file < 0 ? u->file : 0;
    }
    return err;
}

static int open_upload(struct loop *l, const struct http_ask *ask, void **into)
{
    bool browser = false;
    int err = judge(l->upload, ask, &browser);
    struct upload *u;

    if (err)
        return err;
    u = upload_make(l->upload);
    if (!u)
        return -503;
    u->begun_ns = clock_ns();
    u->browser = browser;
    u->new_only = slice_is(http_field(ask->from, FIELD_IF_NONE_MATCH), "*");
    err = open_file(u, ask);
    if (err)
        upload_drop(l, ask->conn, u);
    else
        *into = u;
    return err;
}

/* --- What the core asks ----------------------------------------------------------------------- */

static int store_begin(void *ctx, const struct http_ask *ask, void **into)
{
    struct loop *l = ctx;
    const struct server *srv = l->worker->server;
    const struct route *r;
    int err;

    if (l->aim && aim(l, ask->conn, ask->from))
        return -EHOSTUNREACH;
    if (srv->limits && limits_requests(srv->limits) && !limits_admit(l, ask->conn, ask->from))
        return -EDQUOT;
    r = l->route;
    err = r && (r->auth || r->peers) ? gate_admit(l, ask) : 0;
    l->seen_path = NULL;
    return err ? err : open_upload(l, ask, into);
}

static long store_put(void *ctx, const struct conn *c, void *into, struct slice bytes)
{
    struct upload *u = into;
    long taken = -413;

    if (u->bytes + bytes.len <= u->to->bytes_max)
        taken = u->form ? form_put(ctx, c, u, bytes) : upload_bytes(ctx, c, u, bytes);
    u->bytes += taken > 0 ? (uint64_t)taken : 0;
    return taken;
}

/* A browser shows the folder again (RFC 9110 15.4.4); the address is relative, so that it is right
 * after any prefix. */
static void say_where(struct upload *u, struct http_stored *stored)
{
    size_t n;

    if (u->form && u->browser) {
        *stored = (struct http_stored){303, {"./", 2}};
        return;
    }
    n = path_encode(u->buf, u->path, u->path_len);
    n += path_encode(u->buf + n, u->first, strlen(u->first));
    *stored = (struct http_stored){201, {u->buf, n}};
}

static int store_done(void *ctx, const struct conn *c, void *into, struct http_stored *stored)
{
    struct loop *l = ctx;
    struct upload *u = into;
    int err = u->form ? form_done(u) : upload_keep(l, c, u);

    if (err == -EINPROGRESS)
        return err;
    if (probe_is_watched())
        l->stamps = (struct probe_stamps){.parsed = u->begun_ns};
    if (!err)
        say_where(u, stored);
    return err;
}

static void store_drop(void *ctx, const struct conn *c, void *into)
{
    upload_drop(ctx, c, into);
}

static const char *store_allow(void *ctx, const struct conn *c, const struct http_head *head)
{
    const struct loop *l = ctx;
    char path[PATH_BYTES_MAX];
    long len = head->path.len ? path_decode(head->path, path) : 0;

    (void)c;
    if (len <= 0 || !is_in(l->upload, (struct slice){path, (size_t)len}))
        return "GET, HEAD, OPTIONS";
    return path[len - 1] == '/' ? "GET, HEAD, OPTIONS, POST" : "GET, HEAD, OPTIONS, PUT";
}

const struct http_store upload_store = {
    .begin = store_begin, .put = store_put, .done = store_done, .drop = store_drop,
    .allow = store_allow,
};
