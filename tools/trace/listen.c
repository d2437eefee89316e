/* SPDX-License-Identifier: MIT */
/* listen.c - which process listens at which TCP port, by /proc/net/tcp and the descriptors of a
 * process; and whether a port of the command line is one of these. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "trace.h"

enum { LISTENS = 0x0a, INODES_MAX = 4096 };

struct listener {
    unsigned port;
    unsigned long inode;
};

/* Calls see() for each socket that listens, until it returns true. */
static bool walk(const char *path, bool (*see)(void *arg, const struct listener *l), void *arg)
{
    FILE *file = fopen(path, "re");
    char line[512];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        struct listener l;
        unsigned state;

        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*d %*d %lu", &l.port,
                   &state, &l.inode) == 3 && state == LISTENS)
            found = see(arg, &l);
    }
    if (file)
        fclose(file);
    return found;
}

static bool walk_all(bool (*see)(void *arg, const struct listener *l), void *arg)
{
    return walk("/proc/net/tcp", see, arg) || walk("/proc/net/tcp6", see, arg);
}

static bool is_port(void *arg, const struct listener *l)
{
    return l->port == *(const unsigned *)arg;
}

bool listen_is_at(unsigned port)
{
    return walk_all(is_port, &port);
}

/* --- Of a process ----------------------------------------------------------------------------- */

struct search {
    unsigned long inode[INODES_MAX];
    unsigned inodes, *port, ports;
};

static bool note_port(void *arg, const struct listener *l)
{
    struct search *s = arg;
    bool ours = false;

    for (unsigned i = 0; i < s->inodes && !ours; i++)
        ours = s->inode[i] == l->inode;
    for (unsigned i = 0; i < s->ports; i++)
        ours = ours && s->port[i] != l->port;
    if (ours)
        s->port[s->ports++] = l->port;
    return s->ports == PORTS_FOUND_MAX;
}

int listen_ports(unsigned pid, unsigned port[PORTS_FOUND_MAX])
{
    struct search s = {.port = port};
    char path[64], text[64];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%u/fd", pid);
    dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? -ESRCH : -errno;
    while (s.inodes < INODES_MAX && (entry = readdir(dir)) != NULL) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, text, sizeof(text) - 1);

        text[n > 0 ? n : 0] = 0;
        s.inodes += sscanf(text, "socket:[%lu]", &s.inode[s.inodes]) == 1;
    }
    closedir(dir);
    walk_all(note_port, &s);
    return (int)s.ports;
}

/* --- Of a port -------------------------------------------------------------------------------- */

struct owners {
    unsigned port, inodes, paths;
    unsigned long inode[PORTS_FOUND_MAX];
    dev_t device[OWNERS_MAX];
    ino_t file[OWNERS_MAX];
    char (*path)[OWNER_TEXT];
};

static bool note_inode(void *arg, const struct listener *l)
{
    struct owners *o = arg;

    if (l->port == o->port)
        o->inode[o->inodes++] = l->inode;
    return o->inodes == PORTS_FOUND_MAX;
}

static bool holds(const struct owners *o, const char *process)
{
    char path[64], text[64];
    unsigned long inode;
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%.20s/fd", process);
    dir = opendir(path);
    while (dir && !found && (entry = readdir(dir)) != NULL) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, text, sizeof(text) - 1);

        text[n > 0 ? n : 0] = 0;
        if (sscanf(text, "socket:[%lu]", &inode) == 1)
            for (unsigned i = 0; i < o->inodes; i++)
                found = found || o->inode[i] == inode;
    }
    if (dir)
        closedir(dir);
    return found;
}

static void note_program(struct owners *o, const char *process)
{
    struct stat st;

    snprintf(o->path[o->paths], OWNER_TEXT, "/proc/%.20s/exe", process);
    if (stat(o->path[o->paths], &st) != 0)
        return;
    for (unsigned i = 0; i < o->paths; i++)
        if (o->device[i] == st.st_dev && o->file[i] == st.st_ino)
            return;
    o->device[o->paths] = st.st_dev;
    o->file[o->paths++] = st.st_ino;
}

void listen_owners(unsigned port, struct listen_owners *found)
{
    struct owners o = {.port = port, .path = found->path};
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    walk_all(note_inode, &o);
    found->processes = 0;
    while (dir && found->processes < PROCESSES_MAX && (entry = readdir(dir)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !holds(&o, entry->d_name))
            continue;
        found->process[found->processes++] = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (o.paths < OWNERS_MAX)
            note_program(&o, entry->d_name);
    }
    if (dir)
        closedir(dir);
    found->paths = o.paths;
}

int port_listened(const char *text, unsigned *port)
{
    uint64_t n = 0;

    if (option_number(text, &n) < 0 || n < 1 || n > 65535) {
        say_error("'%s' is no port: it is a number from 1 to 65535", text);
        return EXIT_USAGE;
    }
    *port = (unsigned)n;
    if (listen_is_at(*port))
        return 0;
    say_error("nothing listens at TCP port %u in this network namespace: start the server first, "
              "or see ss -ltn", *port);
    return EXIT_FAILED;
}
