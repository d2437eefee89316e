/* SPDX-License-Identifier: MIT */
/* attach.c - loads the programs of trace.bpf.c into the kernel, attaches them, and reads their
 * ring; they are removed when this process ends.
 *
 * Packets come through the root of the unified control groups, so that the sockets of every process
 * are seen.  Stages are missing if the kernel lacks one of the other trace points, if the server
 * has none, or if the user leaves them out; a message says which.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>
#include "object.h"
#include "trace.h"

enum kind {
    PACKETS,
    POINT, /* of the kernel, by its types */
    CALL,  /* of the kernel, by the file system tracefs */
    MODULE, /* of rung's modules, where no process is found that listens */
    PROBE, /* of the server */
    COUNT  /* as POINT, for --calls alone */
};

struct program {
    const char *name;
    enum kind kind;
    const char *point;
    bool needed;
    const char *loses;
};

static const struct program programs[ATTACH_PROGRAMS] = {
    {"arrived", PACKETS, NULL, true, NULL},
    {"left", PACKETS, NULL, true, NULL},
    {"state", POINT, "inet_sock_set_state", true, NULL},
    {"received", POINT, "sock_recv_length", false, "woken, running and read"},
    {"sent", POINT, "sock_send_length", false, "when the answer was queued"},
    {"again", POINT, "tcp_retransmit_skb", false, "segments that were sent once more"},
    {"waking", POINT, "sched_waking", false, "woken and running"},
    {"running", POINT, "sched_switch", false, "woken and running"},
    {"accepting", CALL, "sys_exit_accept4", false, "accepted, of servers without trace points"},
    {"module_taken", MODULE, "rung_accepted", false, NULL},
    {"module_answer", MODULE, "rung_answer", false, NULL},
    {"taken", PROBE, "accepted", false, "accepted, where accept4() is not called or not seen"},
    {"answer", PROBE, "answer", false, "parsed, found and compressed"},
    {"asking", COUNT, "sys_enter", false, "system calls"},
    {"asked", COUNT, "sys_exit", false, "system calls"},
    {"switching", COUNT, "sched_switch", false, "context switches"},
    {"moving", COUNT, "sched_migrate_task", false, "migrations"},
    {"starting", COUNT, "sched_process_fork", false, "system calls of processes that are started"},
    {"ending", COUNT, "sched_process_exit", false, "that a process has ended"},
};

enum { LACK_TEXT = 200 };

struct attached {
    struct bpf_object *object;
    struct bpf_link *link[ATTACH_PROGRAMS][OWNERS_MAX]; /* of the server's several programs */
    struct listen_owners owners;
    struct bpf_program *program[ATTACH_PROGRAMS];
    struct ring_buffer *ring;
    int cgroup, stats, counts; /* descriptors; of the map with the counters */
    char lack[ATTACH_PROGRAMS][LACK_TEXT];
    bool unless_module[ATTACH_PROGRAMS]; /* a module's events may take the place of what it lacks */
    unsigned lacks;
    uint64_t events; /* taken from the ring */
    bool (*see)(void *arg, const struct event *e);
    void *arg;
};

/* --- Sentences -------------------------------------------------------------------------------- */

static char complaint[256]; /* libbpf's last one, one line */

static int note(enum libbpf_print_level level, const char *format, va_list args)
{
    if (level == LIBBPF_WARN && !complaint[0]) {
        vsnprintf(complaint, sizeof(complaint), format, args);
        complaint[strcspn(complaint, "\n")] = 0;
    }
    return 0;
}

static int refused(const char *what, int err)
{
    if (err == -EPERM || err == -EACCES) {
        char missing[RIGHTS_TEXT];

        rights_missing(missing);
        say_error("not permitted to %s: tracing needs root, or CAP_BPF, CAP_PERFMON and "
                  "CAP_NET_ADMIN; %s%s", what, *missing ? "missing: " : "this process has these, "
                  "so the kernel or a container forbids it", missing);
        return EXIT_FAILED;
    }
    say_error("cannot %s: %s%s%s", what, say_why(err), complaint[0] ? "; " : "", complaint);
    return err == -ENOMEM ? EXIT_FAILED : EXIT_MISSING;
}

static void lack(struct attached *a, const struct program *p, const char *why)
{
    snprintf(a->lack[a->lacks++], LACK_TEXT, "missing: %s, because %s %s%s", p->loses, why,
             p->kind == PROBE ? "rung:" : "", p->point);
}

/* --- Loading ---------------------------------------------------------------------------------- */

/* The program's name in --without: all trace points of the server are one. */
static const char *word(const struct program *p)
{
    return p->kind == PROBE || p->kind == MODULE ? "probe" : p->name;
}

static bool is_left_out(const struct trace_options *opt, const char *name)
{
    for (unsigned i = 0; i < opt->without.count; i++)
        if (strcmp(opt->without.item[i], name) == 0)
            return true;
    return false;
}

static int check_names(const struct trace_options *opt)
{
    for (unsigned i = 0; i < opt->without.count; i++) {
        bool known = false;

        for (unsigned k = 0; k < ATTACH_PROGRAMS; k++)
            known = known || (!programs[k].needed && programs[k].kind != COUNT &&
                              strcmp(word(&programs[k]), opt->without.item[i]) == 0);
        if (!known) {
            say_error("--without %s: it is received, sent, again, waking, running, accepting or "
                      "probe", opt->without.item[i]);
            return EXIT_USAGE;
        }
    }
    return 0;
}

/* Whether any of the program's events are shown: an attached program costs each request time. */
static bool is_shown(const struct trace_options *opt, const struct program *p)
{
    if (p->kind == COUNT)
        return opt->calls;
    return opt->json || strcmp(p->name, "sent") != 0;
}

/* Leaves out the programs that this kernel does not have, or the user does not want. */
static int choose(struct attached *a, const struct trace_options *opt)
{
    struct btf *btf = btf__load_vmlinux_btf();
    char type[64];
    int code = 0;

    if (!btf) {
        say_error("this kernel does not describe its types (/sys/kernel/btf/vmlinux): a kernel "
                  "with CONFIG_DEBUG_INFO_BTF is needed, as Debian's is");
        return EXIT_MISSING;
    }
    for (unsigned i = 0; i < ATTACH_PROGRAMS && !code; i++) {
        const struct program *p = &programs[i];
        bool there = true, out = is_left_out(opt, word(p));

        a->program[i] = bpf_object__find_program_by_name(a->object, p->name);
        if (p->kind == POINT || p->kind == COUNT) {
            snprintf(type, sizeof(type), "btf_trace_%s", p->point);
            there = btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF) > 0;
        }
        if (!there && p->needed) {
            say_error("this kernel has no trace point %s: Linux 6.1 or later has it", p->point);
            code = EXIT_MISSING;
        } else if (!there || out || !is_shown(opt, p)) {
            if (((!there && is_shown(opt, p)) || out) && p->loses)
                lack(a, p, there ? "--without leaves out" : "this kernel has no trace point");
            bpf_program__set_autoload(a->program[i], false);
            a->program[i] = NULL;
        }
    }
    btf__free(btf);
    return code;
}

static bool has(const struct attached *a, const char *name)
{
    for (unsigned i = 0; i < ATTACH_PROGRAMS; i++)
        if (a->program[i] && strcmp(programs[i].name, name) == 0)
            return true;
    return false;
}

/* The variables of trace.bpf.c that are constant once it is loaded. */
struct fixed {
    uint32_t port, sample_mask, watch_threads, count_calls, count_times;
};

static uint32_t power_of_two(uint64_t bytes)
{
    uint32_t power = 4096;

    while (power < bytes)
        power *= 2;
    return power;
}

static int load(struct attached *a, const struct trace_options *opt, unsigned port)
{
    struct fixed fixed = {port, (uint32_t)opt->sample - 1, 0, opt->calls, opt->histogram};
    struct bpf_map *map;
    int err, code;

    a->object = bpf_object__open_mem(trace_object, (size_t)(trace_object_end - trace_object),
                                     NULL);
    if (!a->object)
        return refused("read the programs", -errno);
    code = choose(a, opt);
    if (code)
        return code;
    fixed.watch_threads = has(a, "waking") && has(a, "running");
    map = bpf_object__find_map_by_name(a->object, ".rodata");
    err = map ? bpf_map__set_initial_value(map, &fixed, sizeof(fixed)) : -ENOENT;
    map = bpf_object__find_map_by_name(a->object, "ring");
    err = err ? err : bpf_map__set_max_entries(map, power_of_two(opt->ring));
    if (err)
        return refused("set up the programs", err);
    complaint[0] = 0;
    err = bpf_object__load(a->object);
    if (err)
        return refused("load programs into the kernel", err);
    map = bpf_object__find_map_by_name(a->object, ".bss");
    a->counts = map ? bpf_map__fd(map) : -1;
    return a->counts >= 0 ? 0 : refused("find the counters", -ENOENT);
}

/* --- Attaching -------------------------------------------------------------------------------- */

/* If the control groups are mounted nowhere, a mount without a folder will do; it ends with the
 * descriptor. */
static int mount_cgroups(void)
{
    int context = fsopen("cgroup2", FSOPEN_CLOEXEC), fd = -1;

    if (context < 0)
        return -ENOENT;
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        fd = fsmount(context, FSMOUNT_CLOEXEC, 0);
    close(context);
    return fd < 0 ? -ENOENT : fd;
}

/* Opens the unified control groups where they are mounted; -errno. */
static int open_cgroups(void)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    struct mntent *entry = NULL;
    int fd = -ENOENT;

    while (mounts && (entry = getmntent(mounts)) != NULL)
        if (strcmp(entry->mnt_type, "cgroup2") == 0) {
            fd = open(entry->mnt_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            fd = fd < 0 ? -errno : fd;
            break;
        }
    if (mounts)
        endmntent(mounts);
    return fd == -ENOENT ? mount_cgroups() : fd;
}

/* Attaches one program; true: it is attached. */
static bool attach_one(struct attached *a, unsigned i)
{
    const struct program *p = &programs[i];
    unsigned n = 0;

    complaint[0] = 0;
    if (p->kind == PACKETS)
        a->link[i][n++] = bpf_program__attach_cgroup(a->program[i], a->cgroup);
    else if (p->kind == MODULE && a->owners.paths)
        return false;
    else if (p->kind != PROBE)
        a->link[i][n++] = bpf_program__attach(a->program[i]);
    for (unsigned k = 0; k < a->owners.paths && p->kind == PROBE; k++) {
        a->link[i][n] = bpf_program__attach_usdt(a->program[i], -1, a->owners.path[k], "rung",
                                                 p->point, NULL);
        n += a->link[i][n] != NULL;
    }
    return n > 0 && a->link[i][0];
}

static const char *why_absent(const struct attached *a, const struct program *p)
{
    if (p->kind == CALL)
        return "tracefs is not mounted (mount -t tracefs none /sys/kernel/tracing), or it lacks";
    if (!a->owners.paths)
        return "no process here is found to listen at the port, so none has the trace point";
    return "the server has no trace point";
}

static int attach(struct attached *a)
{
    a->cgroup = open_cgroups();
    if (a->cgroup == -ENOENT) {
        say_error("no unified control groups are mounted, and packets are seen through them: "
                  "mount -t cgroup2 none /mnt");
        return EXIT_MISSING;
    }
    if (a->cgroup < 0)
        return refused("open the control groups", a->cgroup);
    for (unsigned i = 0; i < ATTACH_PROGRAMS; i++) {
        const struct program *p = &programs[i];

        if (!a->program[i])
            continue;
        if (attach_one(a, i))
            continue;
        if (p->kind == PACKETS || p->kind == POINT || p->kind == COUNT)
            return refused("attach the programs", -errno);
        if (p->loses) {
            a->unless_module[a->lacks] = p->kind == PROBE;
            lack(a, p, why_absent(a, p));
        }
        a->program[i] = NULL;
    }
    return 0;
}

static int map_of(const struct attached *a, const char *name)
{
    const struct bpf_map *map = bpf_object__find_map_by_name(a->object, name);

    return map ? bpf_map__fd(map) : -1;
}

/* Called before the programs are attached, so that these processes are counted from the
 * beginning. */
static void add_servers(const struct attached *a)
{
    int servers = map_of(a, "servers");

    for (unsigned i = 0; i < a->owners.processes; i++)
        bpf_map_update_elem(servers, &a->owners.process[i], &(uint32_t){1}, BPF_ANY);
}

static int take(void *arg, void *data, size_t size)
{
    struct attached *a = arg;

    (void)size;
    a->events++;
    return a->see(a->arg, data) ? 0 : -ECANCELED;
}

int attach_begin(struct attached **to, const struct trace_options *opt, unsigned port)
{
    struct attached *a = calloc(1, sizeof(*a));
    struct bpf_map *map;
    int code;

    *to = a;
    if (!a) {
        say_error("out of memory");
        return EXIT_FAILED;
    }
    a->cgroup = a->stats = -1;
    libbpf_set_print(note);
    code = check_names(opt);
    code = code ? code : load(a, opt, port);
    if (!code && opt->cost) {
        a->stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
        code = a->stats < 0 ? refused("measure the programs", -errno) : 0;
    }
    listen_owners(port, &a->owners);
    if (!code && opt->calls)
        add_servers(a);
    code = code ? code : attach(a);
    if (code)
        return code;
    map = bpf_object__find_map_by_name(a->object, "ring");
    a->ring = ring_buffer__new(bpf_map__fd(map), take, a, NULL);
    return a->ring ? 0 : refused("map the ring", -errno);
}

/* --- While it runs ---------------------------------------------------------------------------- */

int attach_read(struct attached *a, bool (*see)(void *arg, const struct event *e), void *arg)
{
    int n;

    a->see = see;
    a->arg = arg;
    n = ring_buffer__consume(a->ring);
    return n < 0 && n != -ECANCELED ? n : 0;
}

uint64_t attach_events(const struct attached *a)
{
    return a->events;
}

void attach_counts(const struct attached *a, struct trace_counts *counts)
{
    if (bpf_map_lookup_elem(a->counts, &(uint32_t){0}, counts) != 0)
        *counts = (struct trace_counts){0};
}

const char *attach_lacks(const struct attached *a, unsigned *at)
{
    struct trace_counts counts;

    attach_counts(a, &counts);
    while (*at < a->lacks && a->unless_module[*at] && counts.module)
        ++*at;
    return *at < a->lacks ? a->lack[(*at)++] : NULL;
}

void attach_calls_until(const struct attached *a, uint64_t ns)
{
    if (has(a, "asking"))
        bpf_map_update_elem(map_of(a, "until"), &(uint32_t){0}, &ns, BPF_ANY);
}

bool attach_calls(const struct attached *a, struct call_count count[COUNTS])
{
    int calls = map_of(a, "calls"), processors = libbpf_num_possible_cpus();
    struct call_count *each = has(a, "asking") && processors > 0
                                  ? calloc((size_t)processors, sizeof(*each)) : NULL;

    for (uint32_t i = 0; i < COUNTS && each; i++) {
        count[i] = (struct call_count){0};
        if (bpf_map_lookup_elem(calls, &i, each) != 0)
            continue;
        for (int k = 0; k < processors; k++) {
            count[i].times += each[k].times;
            count[i].ns += each[k].ns;
            count[i].max_ns = each[k].max_ns > count[i].max_ns ? each[k].max_ns : count[i].max_ns;
        }
    }
    free(each);
    return each != NULL;
}

void attach_call_times(const struct attached *a, uint64_t times[COUNT_CALLS][CALL_STEPS])
{
    int map = map_of(a, "call_times");
    uint32_t key, *last = NULL;

    memset(times, 0, COUNT_CALLS * sizeof(times[0]));
    for (; bpf_map_get_next_key(map, last, &key) == 0; last = &key)
        if (key < COUNT_CALLS * CALL_STEPS)
            bpf_map_lookup_elem(map, &key, &times[key / CALL_STEPS][key % CALL_STEPS]);
}

bool attach_sees_retransmits(const struct attached *a)
{
    return has(a, "again");
}

bool attach_sees_sends(const struct attached *a)
{
    return has(a, "sent");
}

unsigned attach_costs(const struct attached *a, struct attach_cost cost[ATTACH_PROGRAMS])
{
    unsigned n = 0;

    for (unsigned i = 0; i < ATTACH_PROGRAMS && a->stats >= 0; i++) {
        struct bpf_prog_info info = {0};
        uint32_t len = sizeof(info);

        if (a->program[i] &&
            bpf_obj_get_info_by_fd(bpf_program__fd(a->program[i]), &info, &len) == 0)
            cost[n++] = (struct attach_cost){programs[i].name, info.run_cnt, info.run_time_ns};
    }
    return n;
}

void attach_end(struct attached *a)
{
    if (!a)
        return;
    ring_buffer__free(a->ring);
    for (unsigned i = 0; i < ATTACH_PROGRAMS; i++)
        for (unsigned k = 0; k < OWNERS_MAX; k++)
            bpf_link__destroy(a->link[i][k]);
    if (a->object)
        bpf_object__close(a->object);
    if (a->cgroup >= 0)
        close(a->cgroup);
    if (a->stats >= 0)
        close(a->stats);
    free(a);
}
