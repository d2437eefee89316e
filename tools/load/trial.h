/* SPDX-License-Identifier: MIT */
/* trial.h - trials: clients that behave badly on purpose, and ordinary ones at the same time.
 *
 *   trial.c         which trials; the threads of one, and its verdict
 *   trial_truth.c   what a right answer is, learned before any client is hostile
 *   trial_talk.c    a connection whose calls have deadlines, and whose answers are checked
 *   trial_wire.c    ... its bytes, as they are or inside TLS
 *   trial_acts.c    the scripts of the hostile clients
 *   trial_actor.c   what an actor notes of its acts, and how long it acts
 *   trial_report.c  the table and the JSON
 *
 * A trial tests whether a server withstands its clients, not how fast it is: each client is a
 * thread with a script that reads from top to bottom.  Threads own what they fill; main reads it
 * once they have ended.
 */
#ifndef LOAD_TRIAL_H
#define LOAD_TRIAL_H
#include <pthread.h>
#include <stdatomic.h>
#include "answer.h"

enum {
    TRIAL_WHY = 200,          /* bytes of a sentence */
    TRIAL_DEPTH = 256,        /* requests of a pipeline */
    TRIAL_CROWD = 50,         /* silent connections of one client */
    TRIAL_CLIENTS_MAX = 1000, /* threads */
    TRIAL_BESIDE = 3          /* ordinary clients; the last one reconnects each time */
};

/* Kinds of requests on a connection. */
enum trial_ask { ASK_GET, ASK_HEAD, ASK_MISSING, ASKS };

/* The data that do not change while trials run. */
struct scene {
    const struct plan *plan;
    struct target target[ASKS]; /* the URL; the URL with HEAD; a path that hardly exists */
    char *body;                 /* of a right answer, unless --check has it */
    uint64_t act_ns, close_ns, worst_ns, timeout_ns;
};

/* --- trial_truth.c ---------------------------------------------------------------------------- */

/* Gets the server's answers, and fills the scene's targets; `also` of each is the expected status.
 * Returns an exit code, after a message. */
int truth_learn(struct scene *s);
void truth_forget(struct scene *s);

/* --- trial_talk.c ----------------------------------------------------------------------------- */

/* A connection.  Calls return 0 or a count, or -errno; of these
 *   -ETIMEDOUT     the deadline passed
 *   -ENODATA       the server ended the connection between two answers
 *   -ECONNABORTED  ... in the middle of one
 *   -EBADMSG       an answer is wrong: why says how
 * Deadlines are absolute. */
struct talk {
    const struct scene *scene;
    int fd;
    const uint8_t *what;        /* the kind of each request, enum trial_ask; NULL: all GET */
    unsigned asked, answers;    /* requests on this connection; answers that were right */
    unsigned status;            /* of the last answer */
    bool last;                  /* the server has said that it closes */
    bool secure;                /* inside TLS, and the handshake is complete: */
    struct secret *secret;      /* ... see trial_wire.c; NULL: http:// */
    struct answer answer;       /* being read */
    char why[TRIAL_WHY];
    char scratch[16384];
};

/* Connects; receive_bytes: size of the socket's buffer, 0: the system's choice. */
int talk_open(struct talk *t, int receive_bytes);
void talk_close(struct talk *t);
void talk_reset(struct talk *t); /* close with a reset */
void talk_fini(struct talk *t);
int talk_send(struct talk *t, const char *bytes, size_t n, uint64_t until_ns);
/* Sends one GET. */
int talk_ask(struct talk *t, uint64_t until_ns);
/* Receives up to `most` bytes and checks them; returns how many. */
long talk_take(struct talk *t, size_t most, uint64_t until_ns);
/* Receives until every request has its right answer. */
int talk_answers(struct talk *t, uint64_t until_ns);
/* Receives until the server ends the connection.  Returns the status of 400 to 499 that it sent
 * first, or 0: none.  Any other answer is -EBADMSG. */
int talk_refusal(struct talk *t, uint64_t until_ns);
/* Waits; true: before that time bytes came, or the connection ended. */
bool talk_nap(struct talk *t, uint64_t ms);
struct slice talk_request(const struct scene *s, enum trial_ask what);
/* The outcome in words; err may be 0. */
const char *talk_words(const struct talk *t, int err);

/* --- trial_wire.c ----------------------------------------------------------------------------- */

/* 0: the socket is ready, or the connection has ended; -ETIMEDOUT. */
int talk_poll(const struct talk *t, short events, uint64_t until_ns);
/* The handshake of TLS; -EBADMSG: why says what is wrong. */
int talk_shake(struct talk *t, uint64_t until_ns);
/* 0: there are bytes to receive, or the connection has ended; -ETIMEDOUT.  most: bytes that the
 * caller will receive. */
int talk_await(struct talk *t, size_t most, uint64_t until_ns);
/* Returns how many bytes; 0: the connection has ended; -EAGAIN: none now; or -errno. */
long talk_receive(struct talk *t, char *to, size_t most);
bool talk_was_cut(const struct talk *t); /* it has ended, and TLS has not said so */
/* Sends what the socket takes now; returns the count, 0: nothing. */
long talk_push(struct talk *t, const char *bytes, size_t n);
bool talk_waits(const struct talk *t);   /* the socket has not taken all that talk_push() took */
void talk_end_sending(struct talk *t);
/* The connection is the caller's from now on: returns its socket. */
int talk_let_go(struct talk *t);

/* --- trial.c and trial_acts.c ----------------------------------------------------------------- */

/* The results of the clients of one sort. */
struct acts {
    uint64_t done;                   /* connections, or what a script repeats */
    uint64_t answered, closed, wrong; /* of them: rightly, ended by the server, against the rules */
    uint64_t worst_ns;               /* ordinary: the longest from asking to the whole answer */
    uint64_t close_ns;               /* hostile: the longest that the server kept a connection */
    char why[TRIAL_WHY];             /* the first that was wrong */
};

struct actor {
    struct talk talk;
    const struct scene *scene;
    unsigned index;
    uint64_t random, end_ns; /* of acting */
    atomic_bool *stop;       /* ordinary: acts until it is set */
    pthread_t thread;
    bool started;            /* the thread exists */
    void (*script)(struct actor *);
    struct acts acts;
};

/* --- trial_actor.c ---------------------------------------------------------------------------- */

uint64_t actor_random(struct actor *a, uint64_t below);
bool acting(const struct actor *a);
/* Note the outcome of one act: answered, closed by the server, or against the rules; err is 0 or
 * -errno of a talk. */
void actor_answered(struct actor *a);
void actor_closed(struct actor *a, uint64_t since_ns);
void actor_wrong(struct actor *a, const char *doing, int err);

#define X(id, name, words) void trial_##id(struct actor *a);
#include "trials.def"
#undef X

struct trial_result {
    const char *name, *words;
    unsigned clients;
    struct acts hostile, beside, after;
    uint64_t took_ns;
    bool passed;
    char why[640];
};

/* --trial: returns an exit code, after a message. */
int trial_run(struct load_options *opt, const struct option_found *found);

/* --- trial_report.c --------------------------------------------------------------------------- */

void trial_head(const struct scene *s, FILE *out);
void trial_row(const struct trial_result *r, FILE *out);
void trial_end(const struct trial_result *r, unsigned n, FILE *out);
/* Writes to the file path, or to standard output if it is "-"; an exit code. */
int trial_write_json(const struct scene *s, const struct trial_result *r, unsigned n,
                     const char *path);
/* "1.2 ms", into a buffer of 24. */
const char *trial_time(char *buf, uint64_t ns);

#endif
