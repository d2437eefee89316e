/* SPDX-License-Identifier: MIT */
/* tls_tickets.h - the keys of session tickets, which all workers of a server share. */
#ifndef SERVER_TLS_TICKETS_H
#define SERVER_TLS_TICKETS_H
#include <stdbool.h>
#include <stdint.h>

enum {
    TICKET_NAME_BYTES = 16,
    TICKET_KEY_BYTES = 32,
    TICKET_PERIOD_S = 12 * 3600 /* a key makes tickets that long, and opens them twice that long */
};

struct ticket_key {
    unsigned char name[TICKET_NAME_BYTES], cipher[TICKET_KEY_BYTES], mac[TICKET_KEY_BYTES];
};

struct tickets;
/* Call it before workers exist: processes that are forked afterwards share the keys.  0 or
 * -errno. */
int  tickets_open(struct tickets **tickets);
void tickets_close(struct tickets *t); /* NULL is fine */

/* The key to make tickets with; false: the system has no random bytes. */
bool tickets_newest(struct tickets *t, uint64_t now_ms, struct ticket_key *key);
/* The key that made a ticket.  *renew: the client should get a new ticket.  False: it is not known,
 * or not any more. */
bool tickets_find(struct tickets *t, uint64_t now_ms, struct ticket_key *key, bool *renew);

#endif
