/* SPDX-License-Identifier: MIT */
/* context.pml - the ready lists of event and softirq against unload (kernel/kready.c, kernel/kpump.c, kernel/kserve.c).
 *
 * Two connections, the network's callback, one work item, one bottom half, for each connection the work item in which it
 * may wait for a file system (far), and the thread in rmmod.  A turn handles TURN connections; after a full turn the
 * work item queues itself again, as the code does after TURN_MAX.
 *
 * Verified: nothing touches a freed context or connection; a connection is in at most one list and has at most one owner;
 * bytes that a callback announced are pumped; unloading is never stuck.
 *
 * spin:planted FLUSH !(gone[l])  unload calls flush_workqueue(): it misses a work item that queues itself again
 * spin:planted SOFT_LAST !(gone[to])  unload waits for the work item before the bottom half, which may still start it
 * spin:planted FAR_LAST !(gone[to])  unload waits for the contexts' work item before the far ones, which may start it, too
 * spin:planted FORGETS invalid end state  a pumped connection goes to IDLE and ignores a mark made during the pump
 * spin:planted UNHOOKED (state[c]!=  a connection is freed without waiting for callbacks that have begun
 */
#define CONNS 2
#define TURN 2
#define EVENTS 1
#define WORK 0 /* the two contexts */
#define SOFT 1
#define FAR 2  /* not a context: a work item of the connection's own */
#define NONE 3 /* no context owns it */
#define CALL 4 /* its callback owns it, with the bottom half's context */

mtype = {IDLE, QUEUED, RUNNING, AGAIN, FREED};
mtype state[CONNS] = IDLE;
byte owner[CONNS] = NONE;
bool soft[CONNS] = true; /* the bottom half pumps it */
bool news[CONNS];        /* bytes have come and were not received yet */
bool hooked[CONNS] = true, listed[CONNS] = true;
bool called[CONNS];      /* its callback runs, under sk_callback_lock */
bool lock, stop;         /* s->lock; s->stop */
byte live = CONNS;

chan ready[2] = [CONNS] of {byte}; /* what a context's llist holds */
chan rest[2] = [CONNS] of {byte};  /* what the context has taken out of it */
bool pending[2], running[2], gone[2];
bool far[CONNS];         /* its far work item is queued */
byte far_runs;
byte awaited;            /* runs of the work item that a flush still waits for */

#define IN_LIST(c) (ready[0]??[eval(c)] || ready[1]??[eval(c)] || rest[0]??[eval(c)] || rest[1]??[eval(c)])

/* kernel/kready.c kready_add() is two steps: into the list, and start() if the list was empty. */
inline add(l, c) {
    assert(!gone[l] && !IN_LIST(c));
    to = (len(ready[l]) -> NONE : l);
    ready[l]!c
}

inline start() {
    atomic {
        if
        :: to != NONE -> assert(!gone[to]); pending[to] = true; to = NONE
        :: else
        fi
    }
}

/* kernel/kready.c kready_mark(), and kready_queue() if the mark made it QUEUED */
inline mark(c) {
    atomic {
        assert(state[c] != FREED);
        if
        :: state[c] == IDLE ->
            state[c] = QUEUED;
            if
            :: soft[c] -> add(SOFT, c)
            :: else -> add(WORK, c)
            fi
        :: state[c] == RUNNING -> state[c] = AGAIN
        :: else
        fi
    }
    start()
}

/* kernel/kpump.c kready_call(): the connection is pumped in the callback.  Then it waits for its socket (ready_rest()),
 * or is handed to the work item.  ends: it is not done with. */
inline call(c) {
    atomic { assert(owner[c] == NONE && !gone[SOFT]); news[c] = false; owner[c] = CALL; ends = stop }
    atomic {
        assert(owner[c] == CALL && !gone[SOFT]);
        owner[c] = NONE;
        if
        :: true -> soft[c] = false; state[c] = QUEUED; add(WORK, c)
        :: !ends && state[c] == AGAIN -> state[c] = QUEUED; add(SOFT, c)
        :: !ends && state[c] == RUNNING -> state[c] = IDLE
        fi
    }
    start();
    assert(!gone[SOFT]) /* the context is still looked at */
}

/* kernel/khook.c ready_called() and ready_data(): bytes have come. */
proctype network(byte c) {
    byte left = EVENTS, to = NONE;
    bool ends, takes;
    do
    :: atomic { left > 0 && hooked[c] -> left--; news[c] = true; called[c] = true }
        atomic {
            if
            :: state[c] == IDLE && soft[c] -> takes = true; state[c] = RUNNING
            :: takes = false /* a process has the socket */
            fi
        }
        if
        :: takes -> call(c)
        :: else -> mark(c)
        fi;
        called[c] = false
    :: atomic { left == 0 || !hooked[c] -> break }
    od
}

/* kernel/kready.c kready_close(), kernel/kconn.c kconn_finish() and kserve_left() */
inline close(c) {
#ifdef UNHOOKED
    hooked[c] = false;
#else
    atomic { !called[c] -> hooked[c] = false } /* kernel/ksock.c ksock_unhook() takes the lock */
#endif
    atomic { !lock -> listed[c] = false; state[c] = FREED; news[c] = false; owner[c] = NONE }
    live--
}

/* kernel/kpump.c kready_run() and ready_ends(): for a connection from a list, or one whose far work item runs */
inline pump(l, c) {
    atomic {
        assert(state[c] == QUEUED && owner[c] == NONE);
        state[c] = RUNNING;
        owner[c] = l
    }
    news[c] = false;
    ends = stop
}

/* kernel/kpump.c ready_hand_on(), for a context that cannot do the next step: the bottom half hands the connection to the
 * work item, which may sleep (ready_hand()), and both to the queue that may wait for a file system (kernel/kready.c
 * kready_queue_far()) */
inline hand(l, c) {
    atomic {
        if
        :: l == SOFT || !ends ->
            soft[c] = false;
            owner[c] = NONE;
            state[c] = QUEUED;
            if
            :: l == SOFT -> add(WORK, c)
            :: !ends -> far[c] = true
            fi
        :: l == WORK || !ends -> skip
        fi
    }
}

/* kernel/kpump.c ready_rest(), or the end */
inline settle(l, c) {
    if
    :: ends -> close(c)
    :: else ->
        atomic {
            if
            :: l != SOFT -> soft[c] = true /* it wants to receive */
            :: true
            fi;
            owner[c] = NONE;
#ifdef FORGETS
            state[c] = IDLE
#else
            if
            :: state[c] == AGAIN -> state[c] = QUEUED; soft[c] = (l == SOFT); add((l == SOFT -> SOFT : WORK), c)
            :: else -> state[c] = IDLE
            fi
#endif
        }
    fi
}

/* kernel/kfar.c far_work() */
proctype far_work(byte c) {
    byte to = NONE;
    bool ends;
end:
    do
    :: atomic { far[c] -> far[c] = false; far_runs++ }
        pump(FAR, c);
        settle(FAR, c);
        start();
        far_runs--
    od
}

/* kernel/kserve.c context_work() and context_bh(), each of which runs at most once at a time, and context_turn() */
proctype context(byte l) {
    byte n, c, to = NONE;
    bool ends;
end:
    do
    :: atomic { pending[l] -> assert(!gone[l]); pending[l] = false; running[l] = true; n = 0 }
        do
        :: atomic {
                n < TURN && len(rest[l]) + len(ready[l]) ->
                assert(!gone[l]);
                if
                :: empty(rest[l]) -> do :: nempty(ready[l]) -> ready[l]?c; rest[l]!c :: empty(ready[l]) -> break od
                :: nempty(rest[l])
                fi;
                rest[l]?c;
                n++
            }
            pump(l, c);
            hand(l, c);
            if
            :: owner[c] == l -> settle(l, c)
            :: else
            fi;
            start()
        :: atomic { n < TURN && !(len(rest[l]) + len(ready[l])) -> break }
        :: atomic { n == TURN -> assert(!gone[l]); pending[l] = true; break } /* queue_work_on() of itself */
        od;
        atomic { running[l] = false; awaited = (l == WORK && awaited > 0 -> awaited - 1 : awaited) }
    od
}

/* kernel/kserve.c contexts_close(): tasklet_kill() or cancel_work_sync() */
inline end_soft() { atomic { !pending[SOFT] && !running[SOFT] -> gone[SOFT] = true } }

/* kernel/kfar.c kfar_close(): destroy_workqueue() waits for queued and running work */
inline end_far() { !far[0] && !far[1] && !far_runs }

/* kernel/kserve.c ready_close() */
inline end_work() {
#ifdef FLUSH
    awaited = pending[WORK] + running[WORK]; /* flush_workqueue(): the runs that are there now */
    atomic { awaited == 0 -> gone[WORK] = true }
#else
    atomic { !pending[WORK] && !running[WORK] -> gone[WORK] = true } /* drain_workqueue(): until the queue is empty */
#endif
}

/* kernel/kopen.c kserve_close(), stop() and look_at_some(), which releases the lock now and then */
active proctype unload() {
    byte c, to = NONE;
    if
    :: true -> timeout; assert(!news[0] && !news[1]) /* everything has been pumped, nothing was forgotten */
    :: true
    fi;
    stop = true;
    do
    :: atomic { c < CONNS && listed[c] -> lock = true }
        mark(c);
        atomic { lock = false; c++ }
    :: atomic { c < CONNS && !listed[c] -> c++ }
    :: atomic { c == CONNS -> break }
    od;
    live == 0;
#ifdef SOFT_LAST
    end_far();
    end_work();
    end_soft()
#elif defined(FAR_LAST)
    end_soft();
    end_work();
    end_far()
#else
    end_soft();
    end_far();
    end_work()
#endif
}

/* The second client is silent. */
init {
    atomic {
        if
        :: soft[0] = false /* as in the model event */
        :: true
        fi;
        run network(0); run far_work(0); run far_work(1); run context(WORK); run context(SOFT)
    }
}
