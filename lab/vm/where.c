/* SPDX-License-Identifier: MIT */
/* where.c - a plugin for the emulator: how often each block of instructions was executed.
 *
 * When the guest powers off, the plugin writes a line for each block: address, instructions, times.
 * lab/where.py names the blocks.  No package has the emulator's header, so its functions are
 * declared here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*call)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_atexit_cb(uint64_t id, void (*call)(uint64_t id, void *userdata),
                                    void *userdata);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *counter,
                                              uint64_t add);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

enum { VERSION = 1, ADD = 0, BITS = 18 };

struct block {
    struct block *next;
    uint64_t address, instructions, times;
};

static struct block *blocks[1 << BITS];
int qemu_plugin_version = VERSION;

/* A block may be translated many times; all its translations share one counter. */
static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    uint64_t address = qemu_plugin_tb_vaddr(tb), n = qemu_plugin_tb_n_insns(tb);
    struct block **list = &blocks[(address * 0x9e3779b97f4a7c15 + n) >> (64 - BITS)], *b;

    (void)id;
    for (b = *list; b && (b->address != address || b->instructions != n); b = b->next)
        continue;
    if (!b) {
        b = calloc(1, sizeof(*b));
        if (!b)
            abort();
        *b = (struct block){*list, address, n, 0};
        *list = b;
    }
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &b->times, 1);
}

static void ended(uint64_t id, void *path)
{
    FILE *out = fopen(path, "w");

    (void)id;
    for (size_t i = 0; out && i < 1 << BITS; i++)
        for (struct block *b = blocks[i]; b; b = b->next)
            if (b->times)
                fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", b->address, b->instructions,
                        b->times);
    if (out)
        fclose(out);
}

/* out=FILE */
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    if (argc != 1 || strncmp(argv[0], "out=", 4) != 0)
        return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, strdup(argv[0] + 4));
    return 0;
}
