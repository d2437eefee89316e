/* SPDX-License-Identifier: MIT */
/* port_owner.c - which process holds a TCP port, as far as /proc lets us see.
 *
 * /proc/net/tcp names the inode of the listening socket; the process that has socket:[inode] among
 * its descriptors holds it.  Other users' descriptors are hidden from all but root: in that case no
 * owner is named.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "serve.h"

enum { INODES_MAX = 16 };

struct inodes {
    unsigned long inode[INODES_MAX];
    unsigned count;
};

static void listening_inodes(const char *path, unsigned port, struct inodes *found)
{
    enum { TCP_LISTEN_STATE = 0x0a }; /* include/net/tcp_states.h */
    char line[512];
    FILE *f = fopen(path, "re");

    while (f && found->count < INODES_MAX && fgets(line, sizeof(line), f)) {
        unsigned local, state;
        unsigned long inode;
        int n = sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*d %*d %lu",
                       &local, &state, &inode);

        if (n == 3 && local == port && state == TCP_LISTEN_STATE && inode)
            found->inode[found->count++] = inode;
    }
    if (f)
        fclose(f);
}

static bool has_socket(int proc, const char *pid, const struct inodes *wanted)
{
    char path[64], target[64];
    struct dirent *entry;
    bool found = false;
    int fd;
    DIR *dir;

    snprintf(path, sizeof(path), "%.16s/fd", pid);
    fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while (!found && (entry = readdir(dir))) {
        unsigned long inode;
        ssize_t n = readlinkat(fd, entry->d_name, target, sizeof(target) - 1);

        target[n > 0 ? n : 0] = 0;
        if (sscanf(target, "socket:[%lu]", &inode) != 1)
            continue;
        for (unsigned i = 0; i < wanted->count; i++)
            found = found || wanted->inode[i] == inode;
    }
    closedir(dir);
    return found;
}

static void process_name(int proc, const char *pid, char *buf, size_t cap)
{
    char path[64];
    int fd;
    ssize_t n = 0;

    snprintf(path, sizeof(path), "%.16s/comm", pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, buf, cap - 1);
        close(fd);
    }
    buf[n > 0 ? n : 0] = 0;
    buf[strcspn(buf, "\n")] = 0;
}

bool port_owner(unsigned port, char *buf, size_t cap)
{
    struct inodes found = {.count = 0};
    struct dirent *entry;
    bool done = false;
    DIR *proc;

    listening_inodes("/proc/net/tcp", port, &found);
    listening_inodes("/proc/net/tcp6", port, &found);
    proc = found.count ? opendir("/proc") : NULL;
    while (proc && !done && (entry = readdir(proc))) {
        char name[32];

        if (!isdigit((unsigned char)entry->d_name[0]) ||
            !has_socket(dirfd(proc), entry->d_name, &found))
            continue;
        process_name(dirfd(proc), entry->d_name, name, sizeof(name));
        snprintf(buf, cap, "%s (pid %.16s)", *name ? name : "a process", entry->d_name);
        done = true;
    }
    if (proc)
        closedir(proc);
    return done;
}
