/* SPDX-License-Identifier: MIT */
/* uring.pml - an operation in flight holds its session: cancelling and closing in uring (engines/uring.c, engines/uring_ops.c).
 *
 * The loop, the kernel, and between them the queue of operations, which the kernel takes in order, and the queue of
 * completions.  One session's memory is used for LIVES sessions, one after the other, as malloc() may do.
 *
 * Verified: a session is closed once, and never while an operation of its memory is in flight or a completion is on its
 * way; cancelling reaches no other operation than the one it was meant for; the end is reached (ends), however slow a
 * peer is.
 *
 * spin:ltl ENDS
 * spin:planted CLOSES (in_flight==0)  a session is closed when its time is up, and its operation goes on
 * spin:planted EARLY assertion violated  a completion of a multishot poll that goes on is taken for its last
 * spin:planted GROUNDED (in_flight==0)  a session whose bytes wait for memory is not marked as having an operation
 * spin:planted LATE (leaving  the kernel takes the next receive before an earlier cancel
 * spin:planted NO_RETRY invalid end state  a cancel of a multishot poll that the ring did not take is never tried again
 */
#define LIVES 2
#define BYTES 2 /* receives and sends that bring something, of all sessions */
#define NAPS 1      /* receives for which there is no memory at first */
#define SLOW 2      /* sends that find no room */
#define SHORTAGES 1 /* cancels that the ring does not take */

mtype = {NOTHING, RECV, SEND, POLL, WATCH, NAP, CANCEL, UNWATCH}; /* operations */
mtype = {DONE, FAILED, AGAIN, CANCELED, WRITABLE, RDHUP};    /* results */
mtype = {WANT_RECV, WANT_SEND, WANT_WAIT, WANT_CLOSE};
chan sq = [4] of {mtype};
chan cq = [4] of {mtype, mtype, bool}; /* operation, result, more to come */

byte lives = LIVES, bytes = BYTES, naps = NAPS, slow = SLOW, shortages = SHORTAGES, in_flight;
byte changes;     /* 1: a multishot poll has room to report; 9: it has reported that the socket is shut down */
bool open, busy, leaving, held, ending, over; /* busy, leaving: session->engine_data; held: OWNER_THREAD */
bool shut;        /* the socket has been shut down */
mtype want, op = NOTHING;
ltl ends { <> over }

/* The kernel. */
#define COMPLETES(what, res) cq!what, res, false; op = NOTHING
active proctype kernel() {
    mtype next;
end:
    do
#ifdef LATE
    :: atomic { sq??RECV -> next = RECV; goto taken }
#endif
    :: atomic { sq?next ->
taken:      if
            :: next == CANCEL && op == RECV -> COMPLETES(RECV, CANCELED)
            :: next == UNWATCH && (op == POLL || op == WATCH) -> COMPLETES(op, CANCELED)
            :: next != CANCEL && next != UNWATCH -> assert(op == NOTHING); op = next; changes = 1
            :: else /* there is nothing to cancel any more */
            fi
        }
    :: atomic { op == RECV && bytes > 0 -> bytes--; COMPLETES(RECV, DONE) }
    :: atomic { op == RECV && shut -> COMPLETES(RECV, FAILED) }
    :: atomic { op == SEND && bytes > 0 && !shut -> bytes--; COMPLETES(SEND, DONE) }
    :: atomic { op == SEND && slow > 0 && !shut -> slow--; COMPLETES(SEND, AGAIN) } /* the peer reads slowly, perhaps never */
    :: atomic { op == SEND && shut -> COMPLETES(SEND, FAILED) }
    :: atomic { op == POLL && (bytes > 0 || shut) -> COMPLETES(POLL, WRITABLE) }
    :: atomic { op == POLL && !shut -> COMPLETES(POLL, RDHUP) } /* the peer has ended its side */
    :: atomic { op == NAP -> COMPLETES(NAP, DONE) } /* a millisecond is over */
    /* A multishot poll reports each change, and goes on until it is cancelled. */
    :: atomic { op == WATCH && changes == 1 && bytes > 0 -> changes = 0; cq!WATCH, WRITABLE, true }
    :: atomic { op == WATCH && changes != 9 && shut -> changes = 9; cq!WATCH, WRITABLE, true }
    od
}

/* server/session.c session_close() */
inline close() {
    assert(open);
    assert(in_flight == 0);
    atomic { open = false; held = false; leaving = false; busy = false }
}

/* base/ring.c ring_begin(): at the end nothing is begun; without room, or at the end, the session is closed */
inline begin(what) {
    if
    :: atomic { !ending -> sq!what; in_flight++; busy = true }
    :: atomic { ending || shortages > 0 -> shortages = (shortages -> shortages - 1 : 0) }
        close()
    fi
}

/* engines/uring_starved.c uring_begin_in_turn(), engines/uring_ops.c uring_begin() and uring_transmit() */
inline pursue() {
    if
    :: want == WANT_RECV -> begin(RECV)
    :: want == WANT_SEND -> begin(SEND)
    :: want == WANT_WAIT /* for an answer that is made elsewhere */
    :: want == WANT_CLOSE -> close()
    fi
}

/* base/ring.c ring_cancel() */
inline cancel(what) {
    if
    :: sq!what; taken = true
    :: shortages > 0 -> shortages--; taken = false
    fi
}

/* engines/uring.c leave(), and session_cancel_begin() of server/session.c */
inline leave() {
    if
    :: !busy -> close()
    :: else ->
#ifdef CLOSES
        close()
#else
        held = true;
        leaving = true;
        taken = false;
        if
#ifdef NO_RETRY
        :: want == WANT_SEND
#else
        :: want == WANT_SEND -> cancel(UNWATCH); taken = false
#endif
        :: else -> cancel(CANCEL)
        fi;
        if
        :: taken
        :: else -> shut = true
        fi
#endif
    fi
}

/* engines/uring.c session_completed() and stays_polled(), server/session.c session_cancel_undo() */
inline moved() {
    assert(open);
    assert(!(res == CANCELED && what == RECV && !leaving)); /* an earlier cancel that came late */
    /* engines/uring.c unhold(), waits_for_memory(): the bytes stay in the ring's buffer, and are taken again */
    what = (what == NAP -> RECV : what);
    if
    :: what == RECV && res == DONE && !leaving && !ending && naps > 0 -> naps--; waits = true
    :: true -> waits = false
    fi;
    if
    :: waits ->
        sq!NAP; /* one operation has ended, another one begins */
#ifdef GROUNDED
        busy = false
#endif
#ifndef EARLY
    :: more -> /* of a multishot poll */
        cancel(UNWATCH);
#ifndef NO_RETRY
        if
        :: !taken && leaving -> leaving = false; held = false; due = true /* the session is given out again */
        :: else
        fi
#endif
#endif
    :: !more && what == POLL && res == RDHUP && !leaving && !ending ->
        in_flight--;
        begin(WATCH)
    :: else ->
        in_flight--;
        busy = false;
        if
        :: leaving && (what != RECV || res != DONE) -> want = WANT_CLOSE
        :: else ->
            if
            :: leaving -> leaving = false; held = false /* a request came before the cancel */
            :: else
            fi;
            if
            :: res == DONE -> if :: want = WANT_RECV :: want = WANT_SEND :: want = WANT_WAIT :: want = WANT_CLOSE fi
            :: res == FAILED -> want = WANT_CLOSE
            :: else
            fi
        fi;
        if
        :: want == WANT_SEND && res == AGAIN -> begin(POLL)
        :: else -> pursue()
        fi
    fi
}

/* engines/uring.c turns(), reap() and end() */
active proctype loop() {
    mtype what, res;
    bool more, taken, due, waits;
    do
    :: cq?what, res, more -> moved()
    :: atomic { !ending && !open && lives > 0 -> open = true; lives--; shut = false; want = WANT_RECV; due = true }
        begin(RECV)
    :: !ending && want == WANT_WAIT && open -> want = WANT_SEND; begin(SEND) /* engines/uring_accept.c woken() */
    :: !ending && open && due && !held && len(cq) == 0 -> due = false; leave() /* server/loop.c loop_expired() */
    :: !ending -> ending = true
    :: ending && open && !leaving -> leave()
    :: ending && !in_flight -> break
    od;
    if
    :: open -> close() /* server/loop.c loop_close() */
    :: else
    fi;
    over = true
}
