/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* listing_html.c - a folder as a page for people: path, filter, a table that sorts by plain links,
 * totals.
 *
 * Every link is relative, so that a listing works behind any prefix; a name begins with "./", so
 * that a colon in it does not end a scheme.  End tags that HTML makes optional are left out: a row
 * is about 150 bytes and twice the name.
 */
#include "listing_out.h"
#include "listing_page.h"

const char listing_policy[] = PAGE_POLICY;

enum {
    CRUMBS_MAX = 8,   /* components shown of a deep path: its last ones */
    README_PIECE_BYTES = 1024, /* written by one step; escaped, they fit in a chunk */
    PAGE_ROWS = 1000, /* of the pages that a long listing offers: a browser renders them at once */
};

static size_t depth_of(struct slice path)
{
    size_t slashes = 0, i;

    for (i = 0; i < path.len; i++)
        slashes += path.ptr[i] == '/';
    return slashes ? slashes - 1 : 0;
}

/* Component number `wanted` of "/a/b/", cut to what a name can be. */
static struct slice component(struct slice path, size_t wanted)
{
    struct slice c = {path.ptr, 0};
    size_t i, seen = 0;

    for (i = 0; i < path.len; i++) {
        if (path.ptr[i] == '/') {
            if (++seen > wanted + 1)
                break;
            c.ptr = path.ptr + i + 1;
            c.len = 0;
        } else {
            c.len++;
        }
    }
    if (c.len > NAME_BYTES_MAX)
        c.len = NAME_BYTES_MAX;
    return c;
}

/* The beginning of a link to this folder in another view. */
static void out_view(struct listing_out *o, const struct listing_view *view, const char *rel)
{
    out_text(o, "<a rel=\"");
    out_text(o, rel);
    out_text(o, "\" href=\"");
    out_query(o, view, "&amp;");
    out_text(o, "\">");
}

static enum listing_step html_open(struct listing *l, struct listing_out *o)
{
    (void)l;
    out_text(o, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
        "<link rel=\"icon\" href=\"data:,\"><title>");
    return STEP_DONE;
}

/* The path for the browser's tab and history, which cut what is long: the folder itself comes
 * first.  One component a step, up to CRUMBS_MAX. */
static enum listing_step html_title(struct listing *l, struct listing_out *o)
{
    size_t depth = depth_of(l->path);

    if (l->at == depth || l->at == CRUMBS_MAX) {
        out_text(o, l->at == depth ? "/</title>\n" : "\xE2\x80\xA6</title>\n");
        return STEP_DONE;
    }
    out_html(o, component(l->path, depth - 1 - l->at));
    out_text(o, " \xE2\x80\xB9 ");
    l->at += !o->full;
    return STEP_AGAIN;
}

static enum listing_step html_style(struct listing *l, struct listing_out *o)
{
    (void)l;
    out_bytes(o, page_style, sizeof(page_style) - 1);
    out_text(o, "</head>\n<body>\n");
    return STEP_DONE;
}

static void out_up(struct listing_out *o, size_t levels)
{
    while (levels-- && !o->full)
        out_text(o, "../");
}

static void out_home(struct listing_out *o, size_t depth)
{
    static const char house[] = "<svg viewBox=\"0 0 24 24\" role=\"img\" aria-label=\"Top folder\">"
        "<path d=\"M12 3 2 12h3v8h5v-5h4v5h5v-8h3z\"/></svg>";

    out_text(o, "<header><nav aria-label=\"Path\"><h1><ol>\n<li>");
    if (depth) {
        out_text(o, "<a href=\"");
        out_up(o, depth);
        out_text(o, "\">");
    }
    out_text(o, house);
    out_text(o, depth ? "</a>" : "");
    if (depth > CRUMBS_MAX)
        out_text(o, "<li>\xE2\x80\xA6");
}

/* One component of the path a step: at 0 the root, then the last CRUMBS_MAX. */
static enum listing_step html_crumbs(struct listing *l, struct listing_out *o)
{
    size_t depth = depth_of(l->path);
    size_t skipped = depth > CRUMBS_MAX ? depth - CRUMBS_MAX : 0;
    size_t number = skipped + l->at - 1;
    struct slice name;

    if (l->at == 0) {
        out_home(o, depth);
    } else if (number < depth) {
        name = component(l->path, number);
        if (number + 1 == depth) {
            out_text(o, "<li aria-current=\"page\"><bdi>");
            out_html(o, name);
            out_text(o, "</bdi>");
        } else {
            out_text(o, "<li><a href=\"");
            out_up(o, depth - 1 - number);
            out_text(o, "\"><bdi>");
            out_html(o, name);
            out_text(o, "</bdi></a>");
        }
    } else {
        out_text(o, "\n</ol></h1></nav>\n");
        return STEP_DONE;
    }
    l->at += !o->full;
    return STEP_AGAIN;
}

static enum listing_step html_filter(struct listing *l, struct listing_out *o)
{
    static const char *const sort[] = {"name", "size", "time"};
    struct slice filter = {l->view.filter, l->view.filter_len};

    out_text(o, listing_is_page(&l->view) ? "<form role=\"search\" data-page>" :
        "<form role=\"search\">");
    if (l->view.limit) {
        out_text(o, "<input type=\"hidden\" name=\"limit\" value=\"");
        out_number(o, l->view.limit);
        out_text(o, "\">");
    }
    out_text(o, "<input type=\"hidden\" name=\"sort\" value=\"");
    out_text(o, sort[l->view.sort]);
    out_text(o, "\"><input type=\"hidden\" name=\"order\" value=\"");
    out_text(o, l->view.descending ? "desc" : "asc");
    out_text(o, "\"><input type=\"search\" name=\"filter\" autocomplete=\"off\" "
        "spellcheck=\"false\" aria-label=\"Filter by name\" placeholder=\"Filter\" "
        "maxlength=\"");
    out_number(o, LISTING_FILTER_BYTES_MAX);
    out_text(o, "\" value=\"");
    out_html(o, filter);
    out_text(o, "\"><noscript><button>Filter</button></noscript></form></header>\n");
    return STEP_DONE;
}

static void out_counted(struct listing_out *o, uint64_t n, const char *one, const char *many)
{
    out_grouped(o, n);
    out_text(o, n == 1 ? one : many);
}

static void out_totals(const struct listing *l, struct listing_out *o)
{
    out_text(o, "<p id=\"n\" aria-live=\"polite\">");
    if (l->folders || l->files + l->others == 0) {
        out_counted(o, l->folders, " folder", " folders");
        out_text(o, ", ");
    }
    out_counted(o, l->files, " file", " files");
    if (l->others) {
        out_text(o, ", ");
        out_counted(o, l->others, " other", " others");
    }
    if (l->files) {
        out_text(o, ", <span title=\"");
        out_counted(o, l->bytes, " byte", " bytes");
        out_text(o, "\">");
        out_human(o, l->bytes);
        out_text(o, "</span>");
    }
    if (l->streamed && listing_is_page(&l->view))
        out_text(o, " on this page");
    out_text(o, "</p>\n");
}

static void out_column(const struct listing *l, struct listing_out *o, enum listing_sort sort)
{
    static const char *const title[] = {"Name", "Size", "Modified"};
    bool current = l->view.sort == sort; /* the other columns start with the largest and newest */
    struct listing_view view = l->view;

    if (l->streamed) {
        out_text(o, "<th scope=\"col\">");
        out_text(o, title[sort]);
        return;
    }
    out_text(o, "<th scope=\"col\"");
    if (current)
        out_text(o, l->view.descending ? " aria-sort=\"descending\"" : " aria-sort=\"ascending\"");
    out_text(o, ">");
    view.sort = sort;
    view.descending = current ? !view.descending : sort != LISTING_BY_NAME;
    view.offset = 0;
    out_view(o, &view, "nofollow");
    out_text(o, title[sort]);
    if (current)
        out_text(o, l->view.descending ? " <span aria-hidden=\"true\">\xE2\x96\xBE</span>" :
            " <span aria-hidden=\"true\">\xE2\x96\xB4</span>");
    out_text(o, "</a>");
}

static enum listing_step html_table(struct listing *l, struct listing_out *o)
{
    if (l->streamed)
        out_text(o, "<p>Too many entries to sort at once: shown in the folder's own order.</p>\n");
    else
        out_totals(l, o);
    out_text(o, "<main><table><caption>Contents of this folder</caption>\n<thead><tr>");
    out_column(l, o, LISTING_BY_NAME);
    out_column(l, o, LISTING_BY_SIZE);
    out_column(l, o, LISTING_BY_TIME);
    out_text(o, "\n<tbody>\n");
    if (depth_of(l->path))
        out_text(o, "<tr class=\"up\"><td><a href=\"../\">Parent folder</a><td><td>\n");
    return STEP_DONE;
}

static void out_name(const struct listing *l, struct listing_out *o)
{
    static const char *const note[] = {"no address", "no address", "fifo", "socket", "device",
                                       "unreachable"};
    const struct listing_entry *e = &l->held;
    bool linked = listing_links(l);

    if (linked) {
        out_text(o, "<a href=\"./");
        out_url(o, e->name);
        out_text(o, e->kind == LISTING_FOLDER ? "/\"><bdi>" : "\"><bdi>");
    } else {
        out_text(o, "<bdi>");
    }
    out_html(o, e->name);
    out_text(o, e->kind == LISTING_FOLDER ? "/</bdi>" : "</bdi>");
    out_text(o, linked ? "</a>" : "");
    if (e->link)
        out_text(o, "<small>link</small>");
    if (!linked) {
        out_text(o, "<small>");
        out_text(o, note[e->kind]);
        out_text(o, "</small>");
    }
}

static enum listing_step html_row(struct listing *l, struct listing_out *o)
{
    const struct listing_entry *e = &l->held;
    enum listing_step step = listing_hold(l);
    struct listing_stamp stamp;

    if (step != STEP_AGAIN)
        return step;
    out_text(o, e->kind == LISTING_FOLDER ? "<tr class=\"d\"><td>" :
        e->kind == LISTING_FILE ? "<tr><td>" : "<tr class=\"o\"><td>");
    out_name(l, o);
    if (e->kind == LISTING_FILE && !e->unknown) {
        out_text(o, "<td title=\"");
        out_counted(o, e->size, " byte", " bytes");
        out_text(o, "\">");
        out_human(o, e->size);
    } else {
        out_text(o, "<td>\xE2\x80\x93");
    }
    if (e->unknown) {
        out_text(o, "<td>\xE2\x80\x93\n");
        return listing_wrote(l, o);
    }
    out_text(o, "<td><time datetime=\"");
    listing_stamp(l, &stamp);
    out_bytes(o, stamp.date, sizeof(stamp.date));
    out_text(o, "T");
    out_bytes(o, stamp.time, sizeof(stamp.time));
    out_text(o, "Z\">");
    out_bytes(o, stamp.date, sizeof(stamp.date));
    out_text(o, "<span> ");
    out_bytes(o, stamp.time, sizeof(stamp.time) - 3); /* the seconds are in the attribute */
    out_text(o, "</span></time>\n");
    return listing_wrote(l, o);
}

/* Offset of the page before this one; beyond the end, of the last page. */
static uint32_t offset_before(const struct listing *l, uint64_t total)
{
    uint32_t offset = l->view.offset, limit = l->view.limit;

    if (!l->streamed && offset >= total)
        return total ? (uint32_t)(total - 1) / limit * limit : 0;
    return offset > limit ? offset - limit : 0;
}

/* Writes which rows these are, and links to the others. */
static void out_page(const struct listing *l, struct listing_out *o)
{
    uint64_t first = l->view.offset, total = l->folders + l->files + l->others;
    uint64_t last = l->streamed ? first + total : l->more ? first + l->view.limit : total;
    struct listing_view other = l->view;

    out_text(o, "<nav aria-label=\"Pages\">");
    if (first && l->view.limit) {
        other.offset = offset_before(l, total);
        out_view(o, &other, "prev");
        out_text(o, "Previous</a>");
    }
    out_text(o, "<span>");
    out_grouped(o, l->begun ? first + 1 : 0);
    if (l->begun) {
        out_text(o, "\xE2\x80\x93");
        out_grouped(o, last);
    }
    if (!l->streamed) {
        out_text(o, " of ");
        out_grouped(o, total);
    }
    out_text(o, "</span>");
    if (l->more) {
        other.offset = l->view.offset + l->view.limit;
        out_view(o, &other, "next");
        out_text(o, "Next</a>");
    }
    out_text(o, "</nav>\n");
}

/* Links to the folder without the filter, on one page or several, and in other formats. */
static void out_footer(const struct listing *l, struct listing_out *o)
{
    struct listing_view view = l->view;
    bool page = listing_is_page(&view);

    out_text(o, "<footer><span>Times are UTC</span>" /* the script makes them local */);
    if (view.filter_len)
        out_text(o, "<a href=\"./\">Show all</a>");
    if (page || l->folders + l->files + l->others > PAGE_ROWS) {
        view.offset = 0;
        view.limit = page ? 0 : PAGE_ROWS;
        out_view(o, &view, "nofollow");
        out_text(o, page ? "On one page</a>" : "Split into pages</a>");
    }
    if (l->archive)
        out_text(o, "<a rel=\"nofollow\" href=\"?archive=zip\" download>Download as .zip</a>"
            "<a rel=\"nofollow\" href=\"?archive=tar.gz\" download>as .tar.gz</a>");
    view = l->view;
    view.format = LISTING_JSON;
    out_view(o, &view, "nofollow");
    out_text(o, "JSON</a>");
    view.format = LISTING_TEXT;
    out_view(o, &view, "nofollow");
    out_text(o, "Text</a></footer>\n");
}

static enum listing_step html_end(struct listing *l, struct listing_out *o)
{
    struct slice filter = {l->view.filter, l->view.filter_len};

    if (!l->begun && l->view.offset && (l->streamed || l->folders + l->files + l->others)) {
        out_text(o, "<tr class=\"none\"><td colspan=\"3\">This page is past the last entry.\n");
    } else if (!l->begun && filter.len) {
        out_text(o, "<tr class=\"none\"><td colspan=\"3\">No name contains \xE2\x80\x9C<bdi>");
        out_html(o, filter);
        out_text(o, "</bdi>\xE2\x80\x9D.\n");
    } else if (!l->begun) {
        out_text(o, "<tr class=\"none\"><td colspan=\"3\">This folder is empty.\n");
    }
    out_text(o, "</table></main>\n");
    if (l->streamed)
        out_totals(l, o);
    if (listing_is_page(&l->view))
        out_page(l, o);
    return STEP_DONE;
}

/* The browser's own field for files, on which files can also be dropped.  The answer leads back to
 * this folder, without the query. */
static enum listing_step html_upload(struct listing *l, struct listing_out *o)
{
    if (l->upload)
        out_text(o, "<form method=\"post\" action=\"./\" enctype=\"multipart/form-data\">"
            "<input type=\"file\" name=\"file\" aria-label=\"Files to store in this folder\" "
            "multiple required><button>Upload</button></form>\n");
    return STEP_DONE;
}

/* How many bytes of a text the next step escapes: to the end of a line at most, whole characters.
 * 0: the text begins with a line's end or a tab, which is written as it is. */
static size_t piece_of_text(struct slice text)
{
    size_t n = 0;

    while (n < text.len && n < README_PIECE_BYTES && text.ptr[n] != '\n' && text.ptr[n] != '\r' &&
           text.ptr[n] != '\t')
        n++;
    if (n == README_PIECE_BYTES && n < text.len)
        while (n > README_PIECE_BYTES - 4 && (text.ptr[n] & 0xC0) == 0x80)
            n--;
    return n;
}

static size_t out_readme(const struct listing *l, struct listing_out *o)
{
    struct slice rest = {l->readme.ptr + l->at, l->readme.len - l->at};
    size_t n = rest.len < README_PIECE_BYTES ? rest.len : README_PIECE_BYTES;

    if (l->readme_is_html) {
        out_bytes(o, rest.ptr, n);
        return n;
    }
    n = piece_of_text(rest);
    out_html(o, (struct slice){rest.ptr, n});
    if (n == 0 && rest.ptr[0] != '\r')
        out_bytes(o, rest.ptr, 1);
    return n ? n : 1;
}

/* The folder's README, a piece a step. */
static enum listing_step html_readme(struct listing *l, struct listing_out *o)
{
    size_t n;

    if (l->readme.len == 0)
        return STEP_DONE;
    if (l->at == 0)
        out_text(o, l->readme_is_html ? "<article>\n" : "<article><pre>");
    n = out_readme(l, o);
    if (l->at + n < l->readme.len) {
        l->at += o->full ? 0 : n;
        return STEP_AGAIN;
    }
    out_text(o, l->readme_is_html ? "</article>\n" : "</pre></article>\n");
    return STEP_DONE;
}

static enum listing_step html_foot(struct listing *l, struct listing_out *o)
{
    out_footer(l, o);
    out_bytes(o, page_script, sizeof(page_script) - 1);
    out_text(o, "\n</body></html>\n");
    return STEP_DONE;
}

const struct listing_format_step listing_html_steps[] = {{html_open}, {html_title}, {html_style},
    {html_crumbs}, {html_filter}, {html_table}, {html_row}, {html_end}, {html_upload},
    {html_readme}, {html_foot}, {NULL}};
