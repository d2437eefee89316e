/* SPDX-License-Identifier: MIT */
/* drop.h - what the files of rung drop share; start reading here.
 *
 * main.c enters the network namespace, makes a filter of the options, lists the TCP sockets that it
 * wants, drops them if --yes was given, and reports.  The kernel's sock_diag lists the sockets.
 * The resulting haul is what would be dropped, and nothing else is: each socket is dropped by the
 * numbers under which it was listed.
 *
 *   space.c   the namespace       address.c  addresses and pairs as text
 *   pairs.c   a list of pairs     filter.c   which sockets are wanted, and which are left alone
 *   diag.c    sockets by netlink  act.c     dropping all of a haul, one way or the other
 *   tally.c   counting by state, port and peer    report.c, report_json.c  what was found or done
 */
#ifndef TOOLS_DROP_H
#define TOOLS_DROP_H
#include <linux/inet_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include "../../base/option.h"
#include "../../base/say.h"

enum {
    PAIR_LINE_MAX = 160, /* bytes, without its end: the longest pair has 138, and some are padded */
    PAIRS_MAX = 100000,  /* twice the ports that there are, and a few megabytes */
    END_TEXT = INET6_ADDRSTRLEN + IF_NAMESIZE + 9, /* "[address]%device:65535" */
    EXIT_REFUSED = 5     /* exit code, in addition to those of say.h: some could not be dropped */
};

struct drop_options {
#define X(kind, field, ...) OPTION_FIELD_##kind field;
#include "options.def"
#undef X
};

enum { THROUGH_AUTO, THROUGH_DIAG, THROUGH_MODULE };

const struct option_table *drop_table(void);

/* --- address.c -------------------------------------------------------------------------------- */

/* One end of a connection.  IPv4 addresses are kept in their IPv6 form (::ffff:1.2.3.4), so that an
 * IPv6 socket that talks IPv4 is the same to us as an IPv4 socket. */
struct end {
    struct in6_addr addr;
    uint16_t port;
};

struct pair {
    struct end local, peer;
    unsigned device; /* the socket is bound to it; 0: to none, or in a given pair to any */
};

/* A range of addresses, whose first bits are alike. */
struct peer_rule {
    struct in6_addr addr;
    unsigned bits; /* of 128 */
    uint16_t port; /* 0: any */
};

/* pair_read() and peer_read() return NULL, or why the text is not one.  A pair is two ends with
 * blanks between. */
const char *pair_read(char *text, struct pair *pair); /* writes into text */
const char *peer_read(const char *text, struct peer_rule *rule);
void end_write(const struct end *end, unsigned device, char text[END_TEXT]);
void address_write(const struct in6_addr *addr, char text[END_TEXT]);
bool address_is_ipv4(const struct in6_addr *addr);
int pair_compare(const struct pair *a, const struct pair *b); /* ignores the device */

/* --- pairs.c ---------------------------------------------------------------------------------- */

struct pairs {
    struct pair *pair; /* sorted */
    bool *met;         /* a socket had it */
    size_t count;
};

/* From operands, two for each pair, and from a file ("-": standard input; NULL: none).  Returns 0,
 * or an exit code after a message. */
int pairs_make(struct pairs *pairs, const struct option_found *found, const char *path);
void pairs_free(struct pairs *pairs);
bool pairs_have(struct pairs *pairs, const struct pair *pair); /* notes which were met */
size_t pairs_met(const struct pairs *pairs);

/* --- filter.c --------------------------------------------------------------------------------- */

/* A TCP socket as the kernel listed it. */
struct entry {
    struct inet_diag_sockid id; /* the kernel's own numbers for it, with a cookie */
    struct pair pair;
    uint8_t family, state;
    uint32_t uid, inode;        /* inode 0: no process holds it any more */
};

struct port_range {
    uint16_t low, high;
};

struct filter {
    struct pairs pairs;
    struct port_range port[OPTION_LIST_MAX];
    struct peer_rule peer[OPTION_LIST_MAX];
    unsigned ports, peers;
    uint32_t states;   /* bits by enum of netinet/tcp.h: wanted */
    bool states_given; /* if not, the usual states are wanted */
    bool listening;    /* listen was named, so listening sockets are wanted */
    bool by_pairs;     /* only sockets of pairs, even if there is no pair */
    bool ipv4, ipv6;
    uint32_t uid;      /* 0: may drop every user's sockets */
};

enum verdict { VERDICT_OTHER, VERDICT_WANTED, VERDICT_LISTENS, VERDICT_FOREIGN };

int filter_make(struct filter *f, const struct drop_options *opt, const struct option_found *found);
void filter_free(struct filter *f);
bool filter_chooses(const struct filter *f); /* options or pairs choose sockets */
enum verdict filter_judge(struct filter *f, const struct entry *entry);
const char *state_name(unsigned state);

/* --- space.c ---------------------------------------------------------------------------------- */

int space_enter(const char *name); /* 0, or an exit code after a message; NULL: stay */

/* --- diag.c ----------------------------------------------------------------------------------- */

struct diag;

/* The listed sockets that are wanted. */
struct haul {
    struct entry *entry;
    size_t count, room, most;
    size_t listens, foreign; /* otherwise wanted; they are only counted */
    bool too_many;
};

/* Return 0 or -errno.  A listing that finds more than haul->most ends early and sets too_many. */
int diag_open(struct diag **diag);
void diag_close(struct diag *diag);
int diag_list(struct diag *diag, struct filter *f, struct haul *haul);
int diag_drop(struct diag *diag, const struct entry *entry);

/* --- act.c ------------------------------------------------------------------------------------ */

struct outcome {
    bool done;             /* dropping was tried */
    bool by_module;        /* ... through the module */
    size_t dropped, gone;  /* gone: ended by itself since it was listed */
    size_t refused;        /* by the kernel; the reason is in error */
    int error;             /* -errno of the first that was refused */
};

void act(struct diag *diag, const struct haul *haul, unsigned through, struct outcome *outcome);

/* --- tally.c ---------------------------------------------------------------------------------- */

struct row {
    struct in6_addr addr; /* or a number */
    unsigned number;
    size_t count;
};

enum tally_kind { TALLY_STATE, TALLY_PORT, TALLY_PEER, TALLY_PEER_PORT, TALLIES };

/* Rows with the most sockets first; the caller frees them.  NULL: out of memory. */
struct row *tally(const struct haul *haul, enum tally_kind kind, size_t *rows);
const char *tally_text(enum tally_kind kind, const struct row *row, char text[END_TEXT]);

/* --- report.c, report_json.c ------------------------------------------------------------------ */

struct report {
    const struct drop_options *opt;
    const struct filter *filter;
    const struct haul *haul;
    const struct outcome *outcome;
};

void report_text(const struct report *r);
void report_json(const struct report *r);

#endif
