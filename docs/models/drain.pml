/* SPDX-License-Identifier: MIT */
/* drain.pml - a server stops while clients connect: the end of listening (server/listeners.c, server/loop.c).
 *
 * Clients, the kernel's listener with its half-made handshakes and its accept queue, two workers (threads or processes)
 * that share the listener, and one stop signal.  Assumed: handshakes that are under way at the signal are completed
 * within LAST_CALL_MS, and a filter on the listener drops the first packet of new ones, which Unix sockets do not have.
 *
 * Verified: no client is reset.  Each one is served, or refused after the listener was closed, so that it can turn to a
 * successor at once; the listener is closed and the server ends (ends).
 *
 * spin:ltl ENDS
 * spin:planted HEARS half==0  the listener takes new handshakes until it is closed, as it used to
 * spin:planted NO_CALL half==0  the listeners are closed without waiting for handshakes under way
 * spin:planted BLIND half==0  a worker leaves without checking whether a client is queued
 * spin:planted STAYS invalid end state  a worker process that was forked early keeps its copy of the listener
 */
#define CLIENTS 3
#define WORKERS 2

byte half, queued, served, refused; /* clients: in a handshake; accepted only by the kernel; by a worker; refused */
byte holders = WORKERS;             /* workers that have not closed the listener, which ends with the last copy */
byte working = WORKERS;
bool deaf, stopping, calling = true, over;
ltl ends { <> over }

/* The kernel closes a listener, and resets the clients that it still has. */
inline close_copy() {
    atomic {
        holders--;
        if
        :: holders == 0 -> assert(half == 0 && queued == 0)
        :: else
        fi
    }
}

proctype client() {
    do
    :: atomic { holders > 0 && !deaf -> half++; break }
    :: atomic { holders == 0 -> refused++; goto gone } /* or served by a successor */
    od; /* deaf: the first packet was dropped, and is sent again a second later */
    atomic { half--; queued++ }
gone:
    skip
}

/* server/listeners.c server_stop(), base/steer.c net_deafen() */
active proctype signal() {
#ifndef HEARS
    deaf = true;
#endif
    stopping = true;
    /* LAST_CALL_MS */
#ifdef NO_CALL
    calling = false
#else
    atomic { half == 0 -> calling = false }
#endif
}

/* server/loop.c loop_tick(), loop_done() and leave_listeners(): a worker leaves after two turns without a client */
proctype worker() {
    bool closed, left, awaited;
    do
    :: atomic { queued > 0 && !left && !closed -> queued--; served++ } /* server/loop.c loop_accept() */
    :: stopping && !left && (closed || queued == 0) -> /* after a turn in which it has accepted all clients */
        /* server/listeners.c worker_awaited() */
#ifdef BLIND
        awaited = false;
#else
        awaited = (calling || queued > 0);
#endif
        if
        :: awaited -> closed = false; (!calling || queued > 0)
        :: !awaited && !closed -> closed = true
        :: !awaited && closed -> /* server/listeners.c worker_leave() and listeners_leave() */
            left = true;
#ifdef STAYS
            if
            :: holders == WORKERS -> close_copy()
            :: else
            fi
#else
            close_copy()
#endif
        fi
    :: left -> break /* its sessions have been answered */
    od;
    working--
}

active proctype supervisor() {
    working == 0;
    served + refused == CLIENTS;
    over = true
}

init {
    atomic { run worker(); run worker(); run client(); run client(); run client() }
}
