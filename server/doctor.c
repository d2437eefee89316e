/* SPDX-License-Identifier: MIT */
/* doctor.c - what this machine can run, and which of its limits a server meets first.
 *
 * Each check reads one fact, says what it means for a server, and what to do if it binds.  Nothing
 * is changed.  The first limit in the way of many connections is usually descriptors; of many
 * arriving at once, the queue of the listener; of a load generator on the same machine, the range
 * of ports.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "cache.h"
#include "compress.h"
#include "sandbox.h"
#include "serve.h"

enum { VALUE_TEXT = 96 };

struct check {
    const char *name, *meaning, *advice; /* advice for when it is not fine */
    char value[VALUE_TEXT];
    bool fine;
};

/* --- Facts ------------------------------------------------------------------------------------ */

/* The first line of a file of /proc, or "". */
static void read_line(const char *path, char value[VALUE_TEXT])
{
    FILE *f = fopen(path, "re");

    value[0] = 0;
    if (!f)
        return;
    if (!fgets(value, VALUE_TEXT, f))
        value[0] = 0;
    value[strcspn(value, "\n")] = 0;
    for (char *tab = value; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    fclose(f);
}

/* A limit that a container hides is no limit to complain of.  False: it cannot be read. */
static bool read_limit(const char *path, struct check *c)
{
    read_line(path, c->value);
    if (c->value[0])
        return true;
    snprintf(c->value, sizeof(c->value), "not known: %s cannot be read", path);
    c->fine = true;
    return false;
}

static uint64_t first_number(const char *value)
{
    uint64_t n = 0;

    for (; *value >= '0' && *value <= '9'; value++)
        n = n * 10 + (uint64_t)(*value - '0');
    return n;
}

static void check_kernel(struct check *c)
{
    struct utsname u;

    c->fine = uname(&u) == 0;
    snprintf(c->value, sizeof(c->value), "%.30s %.30s on %.20s", u.sysname, u.release, u.machine);
}

static void check_processors(struct check *c)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : CPU_COUNT(&set);

    snprintf(c->value, sizeof(c->value), "%d", n);
    c->fine = n > 1;
}

static void check_descriptors(struct check *c)
{
    struct rlimit l = {0};

    getrlimit(RLIMIT_NOFILE, &l);
    snprintf(c->value, sizeof(c->value), "%" PRIu64 " of at most %" PRIu64, (uint64_t)l.rlim_cur,
             (uint64_t)l.rlim_max);
    c->fine = l.rlim_max >= 20000;
}

static void check_processes(struct check *c)
{
    struct rlimit l = {0};

    getrlimit(RLIMIT_NPROC, &l);
    if (l.rlim_cur == RLIM_INFINITY)
        snprintf(c->value, sizeof(c->value), "unlimited");
    else
        snprintf(c->value, sizeof(c->value), "%" PRIu64, (uint64_t)l.rlim_cur);
    c->fine = l.rlim_cur >= 4096;
}

static void check_somaxconn(struct check *c)
{
    if (read_limit("/proc/sys/net/core/somaxconn", c))
        c->fine = first_number(c->value) >= 1024;
}

static void check_syn_backlog(struct check *c)
{
    if (read_limit("/proc/sys/net/ipv4/tcp_max_syn_backlog", c))
        c->fine = first_number(c->value) >= 256;
}

static void check_ports(struct check *c)
{
    const char *second;

    if (!read_limit("/proc/sys/net/ipv4/ip_local_port_range", c))
        return;
    second = strrchr(c->value, ' ');
    c->fine = second && first_number(second + 1) >= first_number(c->value) + 20000;
}

static void check_uring(struct check *c)
{
    read_line("/proc/sys/kernel/io_uring_disabled", c->value);
    c->fine = c->value[0] == '0' || (c->value[0] == '1' && geteuid() == 0);
    if (!c->value[0]) { /* the switch came with Linux 6.6: before, it was always on */
        snprintf(c->value, sizeof(c->value), "no switch");
        c->fine = true;
    }
}

static void check_ipv6(struct check *c)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    c->fine = fd >= 0;
    snprintf(c->value, sizeof(c->value), "%s", fd >= 0 ? "yes" : strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void check_cache(struct check *c)
{
    int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *refusal = fd < 0 ? strerror(errno) : cache_refusal(fd);

    c->fine = !refusal;
    snprintf(c->value, sizeof(c->value), "%s", refusal ? refusal : "yes");
    if (fd >= 0)
        close(fd);
}

/* Any algorithm is fine: --congestion auto deals with those that pace. */
static void check_congestion(struct check *c)
{
    char name[CONGESTION_NAME];
    int err = congestion_default(name);

    c->fine = !err;
    snprintf(c->value, sizeof(c->value), "%s%s%s", err ? say_why(err) : name,
             !err && congestion_paces(name) ? "; for near clients " : "",
             !err && congestion_paces(name) ? congestion_prompt() : "");
}

static void check_codings(struct check *c)
{
    static const char *const names[CODINGS] = {"", "gzip", "zstd", "br"};
    size_t n = 0;

    c->fine = true;
    for (enum coding coding = CODING_IDENTITY + 1; coding < CODINGS; coding++) {
        if (compressor_of(coding))
            n += (size_t)snprintf(c->value + n, sizeof(c->value) - n, "%s%s", n ? ", " : "",
                                  names[coding]);
        else
            c->fine = false;
    }
    if (n == 0)
        snprintf(c->value, sizeof(c->value), "none");
}

static void check_files(struct check *c)
{
    int version = sandbox_files_version();

    c->fine = version > 0;
    if (c->fine)
        snprintf(c->value, sizeof(c->value), "Landlock %d", version);
    else
        snprintf(c->value, sizeof(c->value), "no: %s", say_why(version));
}

static void check_calls(struct check *c)
{
    int err = sandbox_calls_known();

    c->fine = !err;
    snprintf(c->value, sizeof(c->value), "%s%s", err ? "no: " : "seccomp", err ? say_why(err) : "");
}

/* Only what is there by now: looking must not load the module. */
static void check_tls(struct check *c)
{
    read_line("/proc/sys/net/ipv4/tcp_available_ulp", c->value);
    c->fine = true;
    snprintf(c->value, sizeof(c->value), "%s",
             strstr(c->value, "tls") ? "yes" : "not loaded: rung does it itself");
}

static void check_memory(struct check *c)
{
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t mib = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page >> 20 : 0;

    snprintf(c->value, sizeof(c->value), "%" PRIu64 " MiB free", mib);
    c->fine = mib >= 64;
}

/* --- The list --------------------------------------------------------------------------------- */

static const struct {
    void (*look)(struct check *c);
    const char *name, *meaning, *advice;
} checks[] = {
    {check_kernel, "kernel", "decides which system calls and engines there are",
     "Linux 5.6 is needed (openat2)"},
    {check_processors, "processors", "each can run a worker, or a load generator",
     "with one processor, client and server share it: measure from another machine"},
    {check_memory, "memory", "an idle connection takes a few kilobytes, most of them in the kernel",
     "stop another program, or lower --max-connections"},
    {check_cache, "answers kept in memory", "whether small files of this folder may be read once",
     "serve a folder on ext4, XFS, Btrfs or tmpfs"},
    {check_codings, "answers compressed", "codings that are made of text kept in memory",
     "scripts/setup run, and build again"},
    {check_tls, "records of TLS by the kernel", "what --ktls needs; root's rung loads it: tls",
     "modprobe tls"},
    {check_descriptors, "descriptors", "one for each connection, and one for a file being sent",
     "raise it: ulimit -Hn 1048576 as root, LimitNOFILE= for a service"},
    {check_processes, "processes and threads", "a limit for the engines fork, thread and pool",
     "raise it: ulimit -u"},
    {check_somaxconn, "net.core.somaxconn",
     "connections of a listener that may wait to be accepted",
     "sysctl -w net.core.somaxconn=4096"},
    {check_syn_backlog, "net.ipv4.tcp_max_syn_backlog",
     "connections of a listener that may be half open",
     "sysctl -w net.ipv4.tcp_max_syn_backlog=4096"},
    {check_ports, "net.ipv4.ip_local_port_range",
     "ports for clients here: connections to one address, also in TIME-WAIT",
     "sysctl -w net.ipv4.ip_local_port_range='10240 65535'"},
    {check_congestion, "net.ipv4.tcp_congestion_control",
     "how fast TCP sends; one that paces is left to far clients",
     "enable TCP in this kernel, or serve on a Unix socket: -b unix:PATH"},
    {check_uring, "kernel.io_uring_disabled",
     "io_uring is allowed: 0: to all, 1: to root, 2: to no process",
     "sysctl -w kernel.io_uring_disabled=0"},
    {check_files, "sandbox: files",
     "a running server reaches its folder and its log, no other file",
     "boot with lsm=landlock,... in front of the others; Linux 5.13 has it"},
    {check_calls, "sandbox: system calls",
     "a running server makes the calls that serving needs, no others",
     "nothing can be done on this machine, or in this container: rung says so and serves"},
    {check_ipv6, "IPv6", "needed to serve [::1] in addition to 127.0.0.1",
     "rung serves IPv4 alone, and says so; nothing has to be done"},
};
enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static void print_text(const struct check *c)
{
    printf("%s %-28s %s\n       %s\n", c->fine ? "  ok  " : " LIMIT", c->name, c->value,
           c->meaning);
    if (!c->fine)
        printf("       -> %s\n", c->advice);
}

static void print_engines(void)
{
    const struct engine *chosen;
    unsigned refused = 0;
    const char *why;

    printf("\n");
    for (unsigned i = 0; engine_list[i]; i++)
        if ((why = engine_refusal(engine_list[i], NULL))) {
            printf("Engine %s cannot run here: %s.\n", engine_list[i]->name, why);
            refused++;
        }
    printf("%s engines can run here; rung engines lists them.\n", refused ? "The other" : "All");
    chosen = engine_auto(NULL, &why);
    engine_print_auto(chosen, why);
}

/* Our own words and numbers need no escaping; the value comes from the kernel. */
static void print_json(const struct check *c, bool last)
{
    char value[VALUE_TEXT];

    for (unsigned i = 0; i < VALUE_TEXT; i++)
        value[i] = strchr("\"\\", c->value[i]) && c->value[i] ? '?' : c->value[i];
    printf("  {\"name\": \"%s\", \"value\": \"%s\", \"fine\": %s, \"meaning\": \"%s\", "
           "\"advice\": \"%s\"}%s\n",
           c->name, value, c->fine ? "true" : "false", c->meaning, c->advice, last ? "" : ",");
}

int doctor_print(bool json)
{
    unsigned binding = 0;

    if (json)
        printf("[\n");
    for (unsigned i = 0; i < CHECKS; i++) {
        struct check c = {
            .name = checks[i].name, .meaning = checks[i].meaning, .advice = checks[i].advice};
        checks[i].look(&c);
        binding += !c.fine;
        if (json)
            print_json(&c, i + 1 == CHECKS);
        else
            print_text(&c);
    }
    if (json) {
        printf("]\n");
        return EXIT_DONE;
    }
    print_engines();
    printf("%s\n", binding ? "A line marked LIMIT is met first; the arrow below it says what to do."
                           : "No limit of this machine is in the way of ten thousand connections.");
    return EXIT_DONE;
}
