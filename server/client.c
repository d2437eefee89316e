/* SPDX-License-Identifier: MIT */
/* client.c - the address of the client that sent a request, if proxies report it.
 *
 * Each proxy appends the address that it saw to a list.  So the list is read from its end: as long
 * as the address is that of a trusted proxy, the one before it counts.  The first that is not
 * trusted is the client; the client may have written the elements before it.  An element that is no
 * address ends the search, and the last proxy is named.
 *
 * The headers of the PROXY protocol are kept by descriptor, in memory of this process that takes
 * pages only where connections are.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "client.h"

enum {
    PREFIXES_MAX = 64, /* some networks of proxies have twenty */
    PLACES_BESIDE = 1024 /* descriptors that are no connections */
};

struct clients {
    unsigned prefixes;
    struct prefix prefix[PREFIXES_MAX];
    bool forwarded; /* the field is Forwarded */
    struct address *told; /* by descriptor; NULL: there are no headers */
    size_t places;
};

/* --- Fields ----------------------------------------------------------------------------------- */

/* The elements of all fields of a name, the last one first. */
struct backwards {
    const struct http_head *head;
    const char *name;
    bool quotes; /* a comma between quotes is none */
    unsigned field;
    struct slice rest;
};

/* Read from the end, so that a quote that the client has opened hides nothing behind it. */
static bool previous(struct backwards *b, struct slice *element)
{
    bool quoted = false;
    size_t n;

    while (!b->rest.len) {
        if (!b->field)
            return false;
        b->field--;
        if (slice_is_nocase(b->head->field[b->field].name, b->name))
            b->rest = b->head->field[b->field].value;
    }
    for (n = b->rest.len; n && (quoted || b->rest.ptr[n - 1] != ','); n--)
        if (b->quotes && b->rest.ptr[n - 1] == '"')
            quoted = !quoted;
    *element = slice_trimmed((struct slice){b->rest.ptr + n, b->rest.len - n});
    b->rest.len = n ? n - 1 : 0;
    return true;
}

/* The value of for= in an element of Forwarded (RFC 7239 4), without quotes; empty: there is
 * none, or more than one. */
static struct slice for_of(struct slice element)
{
    struct slice found = {NULL, 0}, part;
    size_t at = 0, n;

    for (; at < element.len; at += n + 1) {
        bool quoted = false;

        for (n = 0; at + n < element.len && (quoted || element.ptr[at + n] != ';'); n++)
            quoted ^= element.ptr[at + n] == '"';
        part = slice_trimmed((struct slice){element.ptr + at, n});
        if (part.len < 5 || !slice_is_nocase((struct slice){part.ptr, 4}, "for="))
            continue;
        if (found.len)
            return (struct slice){NULL, 0};
        found = (struct slice){part.ptr + 4, part.len - 4};
    }
    if (found.len >= 2 && found.ptr[0] == '"' && found.ptr[found.len - 1] == '"')
        return (struct slice){found.ptr + 1, found.len - 2};
    return found;
}

static bool is_trusted(const struct clients *c, const struct address *a)
{
    for (unsigned i = 0; i < c->prefixes; i++)
        if (prefix_has(&c->prefix[i], a))
            return true;
    return false;
}

static void follow_field(const struct clients *c, const struct http_head *head, struct address *a)
{
    struct backwards b = {.head = head, .name = c->forwarded ? "Forwarded" : "X-Forwarded-For",
                          .quotes = c->forwarded, .field = head->fields};
    struct slice element;
    struct address next;

    while (is_trusted(c, a) && previous(&b, &element)) {
        if (!element.len)
            continue;
        if (c->forwarded)
            element = for_of(element);
        if (!address_parse(&next, element.ptr, element.len))
            return;
        *a = next;
    }
}

struct address client_of_connection(const struct clients *c, int fd)
{
    struct address a = {0};

    if (c && c->told && (size_t)fd < c->places)
        a = c->told[fd];
    if (a.family == ADDRESS_NONE && c && c->told && !c->prefixes)
        return a; /* only the proxy can reach the port, and it connects for itself */
    if (a.family == ADDRESS_NONE)
        a = address_of_peer(fd);
    return c && is_trusted(c, &a) ? (struct address){0} : a;
}

void client_address(const struct clients *c, int fd, const struct http_head *head,
                    struct address *a)
{
    *a = (struct address){0};
    if (c && c->told && (size_t)fd < c->places)
        *a = c->told[fd];
    if (a->family == ADDRESS_NONE)
        *a = address_of_peer(fd);
    if (c)
        follow_field(c, head, a);
}

void client_text(const struct clients *c, int fd, const struct http_head *head,
                 char text[NET_ADDRESS_TEXT])
{
    struct address a;

    if (!c) {
        if (net_peer(fd, text) != 0)
            memcpy(text, "-", 2); /* a reset peer has no address any more */
        return;
    }
    client_address(c, fd, head, &a);
    address_text(&a, text);
}

/* --- Headers ---------------------------------------------------------------------------------- */

bool clients_tell(struct clients *c, int fd, const struct address *source)
{
    struct address peer;

    if ((size_t)fd >= c->places)
        return false;
    c->told[fd] = *source;
    if (!c->prefixes)
        return true;
    peer = address_of_peer(fd);
    if (!is_trusted(c, &peer))
        c->told[fd] = (struct address){0};
    return true;
}

/* --- Options ---------------------------------------------------------------------------------- */

static int read_prefixes(struct clients *c, const char *item)
{
    while (*item) {
        size_t n = strcspn(item, ",");
        char text[64];

        if (c->prefixes == PREFIXES_MAX) {
            say_error("--trust: more than %d networks; use shorter prefixes", PREFIXES_MAX);
            return EXIT_USAGE;
        }
        memcpy(text, item, n < sizeof(text) ? n : sizeof(text) - 1);
        text[n < sizeof(text) ? n : sizeof(text) - 1] = '\0';
        if (n >= sizeof(text) || !prefix_parse(&c->prefix[c->prefixes++], text)) {
            say_error("--trust '%s': write an address, ADDRESS/BITS or unix, such as 10.0.0.0/8",
                      text);
            return EXIT_USAGE;
        }
        item += n + (item[n] == ',');
    }
    return EXIT_DONE;
}

static int make_places(struct clients *c, uint64_t connections_max)
{
    struct rlimit limit = {.rlim_cur = UINT32_MAX};
    uint64_t most = 4 * connections_max + PLACES_BESIDE;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    c->places = most < limit.rlim_cur ? most : limit.rlim_cur;
    c->told = mmap(NULL, c->places * sizeof(*c->told), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->told != MAP_FAILED)
        return EXIT_DONE;
    c->told = NULL;
    say_error("cannot start: %s", say_why(errno));
    return EXIT_FAILED;
}

int clients_open(struct server *srv)
{
    const struct serve_options *opt = srv->opt;
    int code = EXIT_DONE;

    if (!opt->proxy_protocol && !opt->trust.count)
        return EXIT_DONE;
    srv->clients = calloc(1, sizeof(*srv->clients));
    if (!srv->clients) {
        say_error("cannot start: %s", say_why(ENOMEM));
        return EXIT_FAILED;
    }
    srv->clients->forwarded = opt->trust_field == 1;
    for (unsigned i = 0; i < opt->trust.count && !code; i++)
        code = read_prefixes(srv->clients, opt->trust.item[i]);
    if (!code && opt->proxy_protocol)
        code = make_places(srv->clients, srv->connections_max);
    return code;
}

void clients_close(struct clients *c)
{
    if (!c)
        return;
    if (c->told)
        munmap(c->told, c->places * sizeof(*c->told));
    free(c);
}
