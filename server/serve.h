/* SPDX-License-Identifier: MIT */
/* serve.h - rung serve, from options to a running server and back.
 *
 *   serve.c          the order of things: engine, signals, listeners, user, site, log, run
 *   commands.def     every command of rung; commands.c makes a list of them
 *   spellings.def    what other servers call their options, and rung's option for each
 *   config.c         options from a file; config_print.c writes such a file
 *   hosts.h          the sites, and which of them a request is for
 *   served.c         a folder, or a single file
 *   serve_table.c    the rows of options.def as a table, and the list of engines
 *   arrange.c        how many workers, and of what kind; what is refused
 *   arrange_send.c   how answers are sent; what of that is refused
 *   listen.c         addresses become listeners, and what to say when that fails
 *   listen_say.c     where the server can be reached, as a QR code too
 *   passed.c         listeners that systemd opened and passed to us
 *   handover.h       ... or that come from the server before
 *   notify.c         reports the server's state to systemd
 *   client.h         client addresses that proxies report
 *   address_limits.h limits of connections and requests for each address
 *   metrics.h        counters and health, on a listener of their own
 *   listen_congestion.c  which congestion control their connections use
 *   port_owner.c     which process holds a port
 *   user.c           another user than root
 *   sandbox.c        what is given up after the start: sandbox.h
 *   signals.c        signals are read from a descriptor, so that no handler ever runs
 *   engines_print.c  what rung engines prints
 *   doctor.c         what rung doctor prints
 *
 * Functions that return an exit code have already reported on stderr what went wrong.
 */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H
#include <sys/types.h>
#include "../base/option.h"
#include "../base/say.h"
#include "inside.h"

/* The fields come from options.def, each with the type of its kind. */
struct serve_options {
#define X(kind, field, ...) OPTION_FIELD_##kind field;
#include "options.def"
#undef X
};

extern const struct option_table serve_table;

/* The options and what is served, from the command line, the environment and a file (config.c). */
struct toml;
struct toml_item;
/* A [[host]] of the file: a site for some names. */
struct serve_host {
    unsigned line;
    const struct toml_item *names; /* an array of strings */
    const char *root;
    struct serve_options opt;      /* only rows that are .site count */
    bool certified;                /* it has --tls itself, and not from the top */
};
struct serve_config {
    struct serve_options opt;
    const char *root;  /* a folder or a file; NULL: none was named */
    unsigned hosts;    /* up to HOSTS_MAX */
    struct serve_host *host;
    struct toml *toml; /* has texts of these; NULL: there is no file */
};
/* Take what the file of --config says, except what `found` says was given already; config->opt and
 * found are from option_parse().  An exit code.  To be closed in any case. */
int  config_read(struct serve_config *config, const struct option_found *found);
void config_close(struct serve_config *config);
/* Print the whole as a file that config_read() reads the same; an exit code (config_print.c). */
int  config_print(const struct serve_config *config);

/* The options of serve with the list of all commands (commands.c): what rung --help prints. */
const struct option_table *rung_table(void);

struct print_options {
    bool json;
};
extern const struct option_table engines_table, doctor_table;

/* The options of serve, for rung config (commands.c). */
const struct option_table *config_table(void);

/* The options of rung echo: the rows that make sense without files, and a port of its own. */
const struct option_table *echo_table(void);

/* Serve the root and the hosts, or without any echo what arrives, until a signal stops it.  Returns
 * an exit code (base/say.h). */
int serve_run(const struct serve_config *config);

/* What is served (served.c). */
struct served {
    char *folder; /* absolute; NULL: echo */
    char *file;   /* a slash and the name of the only file that is served; NULL: all are */
};
/* Looks it up, to be dropped by served_drop(); an exit code. */
int served_find(struct served *s, const char *named);
void served_drop(struct served *s);

/* What this machine can run and which limits bind (doctor.c); an exit code. */
int doctor_print(bool json);

/* --- Names that only root may remove (sweep.c) ------------------------------------------------ */
struct sweep;
/* Call it before the rights are given up, and before any thread exists.  *sweep is NULL if there
 * are no unix sockets.  0 or -errno. */
int sweep_begin(struct sweep **sweep, const struct server *srv);
/* Whether names are removed at the end; no: another server has them.  NULL is fine. */
void sweep_removes(struct sweep *sweep, bool removes);
void sweep_end(struct sweep *sweep); /* names are removed when no process holds it; NULL is fine */

/* --- Engines: all of them in reading order, NULL-terminated ----------------------------------- */
extern const struct engine *const engine_list[];
const struct engine *engine_find(const char *name);
/* Why the engine cannot run here with these options (NULL: with none); NULL: it can (choose.c).
 * Call it before any thread exists. */
const char *engine_refusal(const struct engine *e, const struct serve_options *opt);
/* The engine that --engine auto chooses here with these options (NULL: with none), and why; NULL:
 * none can run. */
const struct engine *engine_auto(const struct serve_options *opt, const char **why);
/* The engine asked for, or engine_auto()'s; NULL: it cannot run, which was reported. */
const struct engine *engine_choose(const struct serve_options *opt, const char **why);
int engines_print(bool json);
void engine_print_auto(const struct engine *chosen, const char *why); /* from engine_auto() */

/* --- user.c ----------------------------------------------------------------------------------- */
struct passwd;
/* The user to become, until the next call; NULL: *code is set and the error was reported. */
const struct passwd *user_find(const char *name, int *code);
/* Changes the groups first, because only root may change them.  False: some step failed. */
bool user_become(const struct passwd *user);
/* ... and makes sure that there is no way back to root.  An exit code. */
int user_become_for_good(const struct passwd *user);

/* --- Sandbox (sandbox.h) ---------------------------------------------------------------------- */
/* Whether there will be one, as far as --sandbox and this program decide it. */
bool sandbox_wanted(const struct serve_options *opt);
/* Give up rights that are not needed from now on, and report what this kernel refuses.  Call it
 * when all is open, and before any thread exists.  An exit code. */
int sandbox_enter(const struct server *srv);

/* --- Arrangement (arrange.c, arrange_send.c) -------------------------------------------------- */
/* Set in srv how many workers there are and how they share (arrange.c).  A combination that makes
 * no sense is refused with its reason.  Returns an exit code. */
int arrange(struct server *srv, const struct serve_options *opt);
/* The number of workers: as many as the engine benefits from, unless a number was given. */
unsigned arrange_workers(const struct engine *e, const struct serve_options *opt);
/* The reason for which arrange() refuses, or NULL: the options fit the engine. */
const char *arrange_refusal(const struct engine *e, const struct serve_options *opt);
/* Set in a how answers are sent (arrange_send.c).  NULL, or a sentence: why that cannot be. */
const char *arrange_sending(struct arrangement *a, const struct engine *e,
                            const struct serve_options *opt);
/* Descriptors of pipes: for each connection, and for all threads together. */
unsigned arrange_pipes_each(const struct arrangement *a, const struct engine *e);
unsigned arrange_pipes(const struct arrangement *a, const struct engine *e);

/* --- systemd (notify.c) ----------------------------------------------------------------------- */
/* Before the sandbox, which makes no socket.  It does nothing where systemd did not start us. */
void notify_open(void);
void notify_close(void);
void notify(const char *state); /* "READY=1": sd_notify(3) */
void notify_reloading(void);

/* --- Listeners (listen.c) --------------------------------------------------------------------- */
/* Open the listeners of opt into srv, and report what was left out or went wrong.  An exit code. */
int listen_open(struct server *srv, const struct serve_options *opt);
/* Apply --congestion WORD, for listeners on those addresses, to srv->arrangement
 * (listen_congestion.c).  Returns an exit code. */
int listen_congestion(struct server *srv, const char *word, const struct option_list *bind);
/* How many listeners were passed to this process (passed.c); more than LISTENERS_MAX: the number
 * makes no sense.  passed_take() puts them into srv; an exit code. */
unsigned passed_count(void);
int passed_take(struct server *srv, const struct net_listening *how);
/* Listeners that this process opened, also those of the metrics and of the handover.  Returns how
 * many. */
unsigned listen_own(const struct server *srv, int fd[LISTENERS_MAX + 2]);
/* Give the unix sockets, which are root's, to that user.  0 or -errno. */
int listen_give(const struct server *srv, uid_t uid, gid_t gid);
void listen_close(struct server *srv); /* and removes unix sockets */
/* The address that a listener is bound to; false: the kernel does not say. */
bool listen_address(int fd, struct net_address *a);
/* "http://127.0.0.1:8080/ and http://[::1]:8080/" */
void listen_text(const struct server *srv, char *buf, size_t cap);
/* What the sandbox refuses to look up: the interfaces, and whether standard error is a terminal
 * that can show a QR code. */
struct ifaddrs;
struct listen_around {
    struct ifaddrs *interfaces; /* NULL: nothing is known */
    bool draws;
};
void listen_around_look(struct listen_around *around, const struct server *srv);
void listen_around_drop(struct listen_around *around);
/* Print where a public server can be reached, one address a line, and the first one as a QR
 * code. */
void listen_say_public(const struct server *srv, const struct listen_around *around);

/* The process that listens on the TCP port, as "nginx (pid 42)"; false: that cannot be known
 * (port_owner.c). */
bool port_owner(unsigned port, char *buf, size_t cap);

#endif
