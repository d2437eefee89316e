/* SPDX-License-Identifier: MIT */
/* fetch.pml - helper threads read, for a loop, bytes of files that are not in memory (server/fetch.c).
 *
 * The loop, its sessions, up to HELPERS helpers, and a disk that may never answer.  Sessions 0 and 1 ask for files of
 * that disk, session 2 for a file of another disk.  Steps that the code takes under its lock are one step here.
 *
 * Verified: a job, a session, a descriptor and the data that the threads share are each released once, and nothing
 * touches them afterwards; whatever hangs, the loop ends, and the job of session 2 is done.  In this model threads can
 * always be started.
 *
 * spin:also HELPERS=3
 * spin:planted FREES memory[  a session that ends frees its job, though a helper reads into it
 * spin:planted CLOSES open[  a session that ends closes its descriptor, though a helper reads from it
 * spin:planted KEEPS open[  a helper does not close the descriptor that it was given
 * spin:planted LATE wake_fd  a helper wakes the loop without the lock, while its job still counts as running
 * spin:planted NO_WAKE served  a helper does not wake the loop
 * spin:planted ONE_IDLE served  one idle helper counts as enough for all jobs that wait
 * spin:planted NO_LIMIT served  a disk that hangs may take all helpers
 * spin:planted WAITS_ALL !(wake_fd)  the loop waits at its end for helpers that hang, too
 * spin:planted EARLY shared  the last helper frees the shared data, though the loop has not left
 */
#define SESSIONS 3
#define OTHER 2   /* the session whose disk answers */
#define ASKS 3    /* of all sessions together */
#define NONE 9
#ifndef HELPERS
#define HELPERS 2 /* FETCH_HELPERS */
#endif
#ifdef NO_LIMIT
#define MOST HELPERS
#else
#define MOST (HELPERS - 1) /* FETCH_DISK */
#endif

mtype = {NOTHING, WAITS, RUNS, DONE, ORPHAN}; /* job_state; ORPHAN: the job runs, and its session has ended */
mtype job[SESSIONS] = NOTHING;
bool memory[SESSIONS];                        /* the job's */
bool open[SESSIONS] = true, ended[SESSIONS];  /* the session's descriptor, the session */
byte runs[2];                                 /* jobs that run, of each disk */
byte helpers, asleep, awake;                  /* awake: woken, but without the lock yet */
bool wake_fd = true, ending, gone, shared = true; /* ending: wake_fd is -1; gone: fetch->left; shared: the struct */
bool woken, stop, answers;                    /* woken: the eventfd; answers: the disk that hung */

#define DISK(s) (s == OTHER)
#define MAY_RUN(s) (job[s] == WAITS && runs[DISK(s)] < MOST)

/* server/fetch.c help(), run() and read_in() */
proctype helper() {
    byte s;
    bool last;
locked:
    atomic {
        assert(shared);
        if
        :: ending ->
            helpers--;
#ifdef EARLY
            last = (helpers == 0);
#else
            last = (helpers == 0 && gone);
#endif
            goto leaves
        :: !ending && MAY_RUN(0) -> s = 0
        :: !ending && MAY_RUN(1) -> s = 1
        :: !ending && MAY_RUN(2) -> s = 2
        :: !ending && !MAY_RUN(0) && !MAY_RUN(1) && !MAY_RUN(2) ->
            asleep++;
            goto sleeps
        fi;
        job[s] = RUNS;
        runs[DISK(s)]++
    };
end_hangs:
    atomic {
        answers || s == OTHER ->
        assert(shared && memory[s] && open[s]);
        if
        :: job[s] == ORPHAN -> goto orphan
        :: job[s] == RUNS
        fi;
        job[s] = DONE;
#ifdef LATE
        goto wakes
#else
        runs[DISK(s)]--;
#ifndef NO_WAKE
        assert(wake_fd); /* loop_wake() */
        woken = true;
#endif
        goto locked
#endif
    };
orphan: /* The lock is released, because closing may hang, too. */
    atomic {
#ifndef KEEPS
        open[s] = false;
#endif
        memory[s] = false
    };
    atomic {
        assert(shared);
        job[s] = NOTHING;
        runs[DISK(s)]--;
        goto locked
    };
#ifdef LATE
wakes:
    atomic { assert(wake_fd); woken = true };
    atomic { runs[DISK(s)]--; goto locked };
#endif
sleeps:
end_sleeps:
    atomic { awake > 0 || ending ->
        if
        :: awake > 0 -> awake--
        :: else -> asleep-- /* by fetch_close() */
        fi;
        goto locked
    };
leaves:
    if
    :: last -> atomic { assert(shared); shared = false } /* fetch_free() */
    :: else
    fi
}

/* server/fetch.c has_helper() and fetch_ask() */
inline ask(s) {
    atomic {
        assert(shared);
        wanted = 0;
        job[s] = WAITS;
        memory[s] = true;
        if
        :: MAY_RUN(s) ->
#ifdef ONE_IDLE
            wanted = 1;
#else
            wanted = (MAY_RUN(0) -> 1 : 0) + (MAY_RUN(1) -> 1 : 0) + (MAY_RUN(2) -> 1 : 0);
#endif
            if
            :: wanted > asleep + awake && helpers < HELPERS -> helpers++; run helper()
            :: else
            fi
        :: else
        fi;
        if
        :: asleep > 0 -> asleep--; awake++
        :: else
        fi
    }
}

/* A session ends: server/fetch.c fetch_forget(), then the session or the helper that has the descriptor closes it. */
inline end(s) {
    atomic {
        assert(shared && !ended[s] && job[s] != ORPHAN);
        ended[s] = true;
        if
        :: job[s] == RUNS ->
            job[s] = ORPHAN;
#ifdef FREES
            memory[s] = false;
#endif
#ifdef CLOSES
            open[s] = false;
#endif
        :: else ->
            job[s] = NOTHING;
            memory[s] = false;
            assert(open[s]);
            open[s] = false
        fi
    }
}

/* server/fetch.c fetch_done(), which also resumes each session */
inline done(s) {
    atomic {
        if
        :: job[s] == DONE -> job[s] = NOTHING; memory[s] = false
        :: else
        fi
    }
}

/* server/fetch.c fetch_close(); afterwards server/loop.c loop_close() closes the descriptor that wakes it. */
inline close_all() {
    atomic { assert(shared); ending = true };
    atomic {
#ifdef WAITS_ALL
        helpers == 0 ->
#else
        helpers == runs[0] + runs[1] ->
#endif
        assert(shared);
        gone = true;
        last = (helpers == 0)
    };
    if
    :: last -> atomic { assert(shared); shared = false }
    :: else
    fi;
    wake_fd = false
}

active proctype loop() {
    byte asks = ASKS, wanted;
    bool last;
    do
    :: asks > 0 && job[0] == NOTHING && !ended[0] -> asks--; ask(0)
    :: asks > 0 && job[1] == NOTHING && !ended[1] -> asks--; ask(1)
    :: asks > 0 && job[2] == NOTHING && !ended[2] -> asks--; ask(2)
    :: asks > 0 && !ended[0] -> asks--; end(0)
    :: asks > 0 && !ended[2] -> asks--; end(2)
    :: asks > 0 -> asks-- /* the sessions ask for no more */
    :: woken -> woken = false; done(0); done(1); done(2)
    :: stop -> break
    od;
    /* server/loop.c loop_close(): every session that is left */
    if :: !ended[0] -> end(0) :: else fi;
    if :: !ended[1] -> end(1) :: else fi;
    if :: !ended[2] -> end(2) :: else fi;
    close_all()
}

/* The disk answers at some time, or not before the loop has ended. */
active proctype disk() {
    if
    :: answers = true
    :: true
    fi
}

/* When nothing moves any more, the session whose disk answers has been served.  Then the server is asked to stop.  When
 * nothing moves again, everything is closed except what the other disk holds. */
active proctype clients() {
    bool served;
    if
    :: true -> timeout; served = (job[OTHER] == NOTHING); assert(served)
    :: true
    fi;
    stop = true;
    timeout;
    assert(!wake_fd); /* the loop has ended */
    answers = true;
    timeout;
    assert(!shared && !open[0] && !open[1] && !open[2])
}
