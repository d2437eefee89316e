/* SPDX-License-Identifier: MIT */
/* sniff_filter.c - loads the program of sniff.bpf.c, which picks packets for a socket. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include "object.h"
#include "sniff.h"

/* The variables of sniff.bpf.c. */
struct fixed {
    uint32_t port, link_bytes, loopback;
};

static int silent(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level;
    (void)format;
    (void)args;
    return 0;
}

static int load(struct bpf_object *object, const struct fixed *fixed)
{
    struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata");
    struct bpf_program *program = bpf_object__find_program_by_name(object, "pick");
    int err = map && program ? bpf_map__set_initial_value(map, fixed, sizeof(*fixed)) : -ENOENT;
    int fd;

    err = err ? err : bpf_object__load(object);
    if (err)
        return err;
    fd = fcntl(bpf_program__fd(program), F_DUPFD_CLOEXEC, 3);
    return fd < 0 ? -errno : fd;
}

int filter_load(unsigned port, unsigned link, bool loopback, int *code)
{
    struct fixed fixed = {port, link, loopback};
    struct bpf_object *object;
    int fd;

    libbpf_set_print(silent);
    object = bpf_object__open_mem(sniff_object, (size_t)(sniff_object_end - sniff_object), NULL);
    fd = object ? load(object, &fixed) : -errno;
    bpf_object__close(object);
    *code = EXIT_FAILED;
    if (fd == -EPERM || fd == -EACCES) {
        say_error("not permitted to load the filter into the kernel: sniffing needs root, or "
                  "CAP_NET_RAW and CAP_BPF");
    } else if (fd < 0) {
        say_error("cannot load the filter into the kernel: %s; Linux 6.1 or later can",
                  say_why(fd));
        *code = fd == -ENOMEM ? EXIT_FAILED : EXIT_MISSING;
    }
    return fd;
}
