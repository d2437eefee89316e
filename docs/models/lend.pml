/* SPDX-License-Identifier: MIT */
/* lend.pml - how dispatch lends a session to a thread of its pool and gets it back (server/session.c, engines/dispatch.c).
 *
 * The waiting thread (the dispatcher), two threads of the pool, the queue between them, the pipe by which ended sessions
 * are returned, and clients that send, run out of time and finally stop the server.
 *
 * Verified: one thread at a time touches a session, and never a closed one; each is closed once; bytes that have come
 * are received; neither a full queue nor a full pipe nor the end leaves a thread stuck.
 *
 * spin:planted DROPS news[  an event for a session that is lent out is dropped instead of noted as MISSED
 * spin:planted STORES news[  a thread gives the session back by a plain store, over a MISSED that the dispatcher has written
 * spin:planted EXPIRES state[  a session is closed when its time is up, though it is lent out
 * spin:also PIPE=0
 * spin:planted NO_REAP news[  a dispatcher that waits for room in the queue leaves the pipe full
 * spin:planted POOL_FIRST invalid end state  the dispatcher joins its pool before it has closed the pipe
 */
#define SESSIONS 3
#define THREADS 2
#define EVENTS 3  /* of all clients together */
#define NONE 9
#ifdef NO_REAP
#define PIPE 0
#endif
#ifndef PIPE
#define PIPE 1    /* with 0 no pointer fits, as when thousands of sessions end at once */
#endif

mtype = {LOOP, THREAD, MISSED, CLOSED};
mtype state[SESSIONS] = LOOP; /* conn.owner_state */
bool news[SESSIONS], armed[SESSIONS] = true, due[SESSIONS];
bool event[SESSIONS];     /* in the batch that epoll_wait() has returned */
byte toucher[SESSIONS] = NONE;
bool stop, unread, ended; /* the server is to stop; the pipe's reading end is closed; the queue has ended */
byte threads = THREADS;

chan queue = [0] of {byte}; /* no room at all is the hardest case: a put waits for a take */
chan home = [PIPE] of {byte};

inline touch(s, me) { atomic { assert(state[s] != CLOSED && toucher[s] == NONE); toucher[s] = me } }
inline leave(s) { toucher[s] = NONE }

/* server/session.c session_close(), called by the dispatcher alone */
inline close(s) {
    touch(s, _pid);
    atomic { state[s] = CLOSED; news[s] = false; armed[s] = false; due[s] = false; leave(s) }
}

/* server/session.c session_schedule(): true is left in taken */
inline lend(s) {
    assert(state[s] != CLOSED);
    taken = false;
    seen = state[s];
    do
    :: seen == LOOP ->
        touch(s, _pid); /* the timer is moved */
        atomic { leave(s); state[s] = THREAD; taken = true; break }
    :: seen != LOOP ->
#ifdef DROPS
        break
#else
        atomic {
            if
            :: state[s] == seen -> state[s] = MISSED; break
            :: else -> seen = state[s]
            fi
        }
#endif
    od
}

/* engines/dispatch.c work_on(), and session_pump_scheduled() and session_complete() of server/session.c */
proctype worker() {
    byte s;
    bool back;
end:
    do
    :: queue?s ->
        back = false;
        do
        :: !back ->
            assert(state[s] != CLOSED);
            state[s] = THREAD;
            touch(s, _pid);
            news[s] = false; /* conn_pump(): received until there is no more */
            leave(s);
            if
            :: true -> /* it wants to be closed */
                if
                :: home!s
                :: unread /* a pipe that nothing reads takes no more */
                fi;
                break
            :: true -> armed[s] = true /* engines/dispatch.c arm() */
            fi;
            atomic {
                assert(state[s] != CLOSED);
#ifdef STORES
                state[s] = LOOP; back = true
#else
                back = (state[s] == THREAD);
                state[s] = (back -> LOOP : state[s])
#endif
            }
        :: back -> break
        od
    :: ended -> threads--; break
    od
}

/* engines/dispatch.c hand_out(): a full queue, and a pool that may wait for the pipe */
inline hand_out(s) {
    do
    :: queue!s -> break
#ifndef NO_REAP
    :: home?other -> close(other) /* engines/dispatch.c reap() */
#endif
    od
}

/* server/loop.c loop_expired(): after the whole batch */
inline expire(s) {
    if
#ifdef EXPIRES
    :: due[s] && state[s] != CLOSED -> close(s)
#else
    :: due[s] && state[s] == LOOP -> close(s)
#endif
    :: else
    fi
}

#define FIRES(s) (armed[s] && news[s])
#define OVER(s) (due[s] && state[s] == LOOP)

/* engines/dispatch.c turns(), handle(), dispatcher_close() */
proctype dispatcher() {
    byte s, other;
    bool taken;
    mtype seen;
    do
    :: atomic { !stop && (FIRES(0) || FIRES(1) || FIRES(2) || OVER(0) || OVER(1) || OVER(2)) ->
            s = 0;
            do
            :: s < SESSIONS && FIRES(s) -> armed[s] = false; event[s] = true; s++
            :: s < SESSIONS && !FIRES(s) -> s++
            :: s == SESSIONS -> s = 0; break
            od
        }
        do
        :: s < SESSIONS && event[s] ->
            event[s] = false;
            lend(s);
            if
            :: taken -> hand_out(s)
            :: else
            fi;
            s++
        :: s < SESSIONS && !event[s] -> s++
        :: home?other -> close(other) /* engines/dispatch.c reap() */
        :: s == SESSIONS -> break
        od;
        s = 0;
        do
        :: s < SESSIONS -> expire(s); s++
        :: else -> break
        od;
        s = 0
    :: home?other -> close(other)
    :: stop -> break
    od;
#ifndef POOL_FIRST
    unread = true;
#endif
    ended = true; /* engines/thread_pool.h thread_pool_close() */
    threads == 0;
    /* server/loop.c loop_close(): every session that is left, also those that were returned to a closed pipe */
    s = 0;
    do
    :: s < SESSIONS && state[s] != CLOSED -> close(s); s++
    :: s < SESSIONS && state[s] == CLOSED -> s++
    :: s == SESSIONS -> break
    od
}

active proctype clients() {
    byte left = EVENTS;
    do
    :: left > 0 ->
        left--;
        if
        :: atomic { state[0] != CLOSED -> news[0] = true }
        :: atomic { state[1] != CLOSED -> news[1] = true }
        :: atomic { state[2] != CLOSED -> news[2] = true }
        :: atomic { state[0] != CLOSED -> due[0] = true }
        :: true
        fi
    :: left == 0 -> timeout; assert(!news[0] && !news[1] && !news[2]); break /* all is quiet, and nothing was missed */
    :: break
    od;
    stop = true
}

init {
    atomic { run worker(); run worker(); run dispatcher() }
}
