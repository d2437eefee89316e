/* SPDX-License-Identifier: MIT */
/* sandbox_calls.c - the rows of sandbox_calls.def as a filter that the kernel runs (seccomp(2)).
 *
 * This is our own code, not libseccomp: the filter is a row of comparisons, and a server that is
 * one static file needs no library for it.  The kernel works out once which numbers are allowed
 * whatever their arguments (from Linux 5.11 on), so the usual call costs one look at a bit; only
 * the few that have a condition run the filter, and these come first in it.
 *
 * clone3() has its flags in memory, where no filter can see them: the filter answers that there is
 * no such call (ENOSYS), and libc uses clone() then.  Calls that are newer than this list get the
 * same answer, so that a later libc does what it does on an old kernel.
 */
#include "sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#define MACHINE 0
#endif

enum {
    NEWEST = 450,          /* set_mempolicy_home_node, of Linux 5.17; the same everywhere */
    NO_CALL = -1,
    X32_BIT = 0x40000000,  /* of another way to call on x86 */
    PROGRAM_MAX = 512,
    CLONES_NEW = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                 CLONE_NEWNET | CLONE_NEWCGROUP
};

enum {
    CONDITIONS_MAX = 2,
    CONDITION_STATEMENTS = 4
};

static const struct row {
    unsigned need;
    int number;
    unsigned conditions;
    struct condition {
        enum { IF_EQ, IF_CLEAR, IF_SET } is;
        unsigned arg;
        uint32_t value;
    } condition[CONDITIONS_MAX];
} rows[] = {
#define EQ(arg, value) IF_EQ, arg, value
#define CLEAR(arg, bits) IF_CLEAR, arg, bits
#define SET(arg, bits) IF_SET, arg, bits
#define CALL(need, name) {need, __NR_##name, 0, {{IF_EQ, 0, 0}}},
#define CALL_IF(need, name, one) {need, __NR_##name, 1, {{one}}},
#define CALL_IF_BOTH(need, name, one, other) {need, __NR_##name, 2, {{one}, {other}}},
#include "sandbox_calls.def"
#undef EQ
#undef CLEAR
#undef SET
#undef CALL
#undef CALL_IF
#undef CALL_IF_BOTH
};

struct program {
    unsigned len;
    struct sock_filter code[PROGRAM_MAX];
};

static void put(struct program *p, uint16_t code, uint32_t k)
{
    if (p->len < PROGRAM_MAX)
        p->code[p->len++] = (struct sock_filter)BPF_STMT(code, k);
}

/* Skips `skip` statements unless the comparison holds, or if `holds` is false, if it does. */
static void put_unless(struct program *p, uint16_t test, uint32_t k, int skip)
{
    put(p, (uint16_t)(BPF_JMP | BPF_K | test), k);
    if (skip > 0)
        p->code[p->len - 1].jf = (uint8_t)skip;
    else
        p->code[p->len - 1].jt = (uint8_t)-skip;
}

static void put_load(struct program *p, size_t offset)
{
    put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

static void put_number(struct program *p)
{
    put_load(p, offsetof(struct seccomp_data, nr));
}

/* The last of its statements skips `rest` more if the condition does not hold.  Arguments have 64
 * bits; both machines have the low half first. */
static void put_condition(struct program *p, const struct condition *c, int rest)
{
    size_t arg = offsetof(struct seccomp_data, args) + c->arg * sizeof(uint64_t);

    put_load(p, arg + sizeof(uint32_t));
    put_unless(p, BPF_JEQ, 0, rest + 2);
    put_load(p, arg);
    if (c->is == IF_CLEAR)
        put_unless(p, BPF_JSET, c->value, -rest);
    else
        put_unless(p, c->is == IF_SET ? BPF_JSET : BPF_JEQ, c->value, rest);
}

static void put_row(struct program *p, const struct row *row)
{
    int more = (int)row->conditions * CONDITION_STATEMENTS;

    put_unless(p, BPF_JEQ, (uint32_t)row->number, more ? more + 2 : 1);
    for (unsigned i = 0; i < row->conditions; i++) {
        more -= CONDITION_STATEMENTS;
        put_condition(p, &row->condition[i], more + 1);
    }
    put(p, BPF_RET, SECCOMP_RET_ALLOW);
    if (row->conditions)
        put_number(p);
}

static void put_all(struct program *p, unsigned needs, uint32_t otherwise)
{
    put_load(p, offsetof(struct seccomp_data, arch));
    put_unless(p, BPF_JEQ, MACHINE, -1);
    put(p, BPF_RET, SECCOMP_RET_KILL_PROCESS);
    put_number(p);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if ((rows[i].need & needs) == rows[i].need)
            put_row(p, &rows[i]);
    put_unless(p, BPF_JEQ, NO_CALL, 1); /* a debugger skips a call: strace -e inject */
    put(p, BPF_RET, SECCOMP_RET_ERRNO | ENOSYS);
    put_unless(p, BPF_JGE, X32_BIT, 1);
    put(p, BPF_RET, otherwise);
    put_unless(p, BPF_JEQ, __NR_clone3, 1);
    put(p, BPF_RET, SECCOMP_RET_ERRNO | ENOSYS);
    put_unless(p, BPF_JGT, NEWEST, 1);
    put(p, BPF_RET, SECCOMP_RET_ERRNO | ENOSYS);
    put(p, BPF_RET, otherwise);
}

int sandbox_calls_known(void)
{
    uint32_t action = SECCOMP_RET_KILL_PROCESS;

    if (!MACHINE)
        return -EOPNOTSUPP;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0 ? -errno : 0;
}

int sandbox_calls_enter(unsigned needs, bool strict)
{
    static struct program p;
    struct sock_fprog prog;
    int err = sandbox_calls_known();

    if (err)
        return err;
    p.len = 0;
    put_all(&p, needs, strict ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM);
    if (p.len == PROGRAM_MAX)
        return -E2BIG;
    prog = (struct sock_fprog){.len = (uint16_t)p.len, .filter = p.code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}
