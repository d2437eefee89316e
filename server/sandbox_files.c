/* SPDX-License-Identifier: MIT */
/* sandbox_files.c - Landlock (landlock(7)): the served folders may be read, the log may be written,
 * and the rest of the file system is out of reach.
 *
 * A rule is bound to an inode, with all below it, other mounts too.  The log is opened again by its
 * name, which may be new by then, so its folder may get new files, and files there may be written.
 * Certificates are read again, and a new file may have taken the name, or a link may lead to
 * another one: files may be read in the folder of the name and in the one where links end now.
 * A folder that this user cannot enter needs no rule, because nothing there could be read again.
 * A file of /proc gets another inode when the kernel has forgotten it, so these files stay open.
 * Newer versions of Landlock also forbid to connect, to bind, and to send signals outside.
 */
#include "sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "inside.h"
#include "tls.h"

/* <linux/landlock.h> of Debian 12 ends at version 2. */
enum {
    VERSION_OF_NET = 4, /* these attributes came with it */
    VERSION_OF_SCOPES = 6,
    ASK_VERSION = 1,
    RULE_BENEATH = 1
};
static const uint64_t fs_write_file = 1 << 1, fs_read_file = 1 << 2, fs_read_dir = 1 << 3,
                      fs_make_reg = 1 << 8;
/* all rights to files that version n knows: fs_rights[n - 1]; the last one is for later versions */
static const uint64_t fs_rights[] = {0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff};

struct attributes {
    uint64_t fs, net, scopes;
};

struct beneath {
    uint64_t rights;
    int32_t fd;
} __attribute__((packed));

int sandbox_files_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);

    return version < 0 ? -errno : (int)version;
}

static uint64_t all_rights(int version)
{
    int last = sizeof(fs_rights) / sizeof(fs_rights[0]);

    return fs_rights[(version < last ? version : last) - 1];
}

static int ruleset_open(int version)
{
    struct attributes a = {.fs = all_rights(version), .net = 3, .scopes = 3};
    size_t size = version < VERSION_OF_NET      ? sizeof(a.fs)
                  : version < VERSION_OF_SCOPES ? sizeof(a.fs) + sizeof(a.net)
                                                : sizeof(a);
    long fd = syscall(SYS_landlock_create_ruleset, &a, size, 0);

    return fd < 0 ? -errno : (int)fd;
}

/* Pipes and sockets without a name (EBADFD) know no rules: what is open can be used. */
static int allow(int ruleset, int fd, uint64_t rights)
{
    struct beneath b = {.rights = rights, .fd = fd};
    int err = syscall(SYS_landlock_add_rule, ruleset, RULE_BENEATH, &b, 0) < 0 ? -errno : 0;

    return err == -EBADFD ? 0 : err;
}

static int allow_path(int ruleset, const char *path, uint64_t rights)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    int err = fd < 0 ? -errno : allow(ruleset, fd, rights);

    if (fd >= 0)
        close(fd);
    return err;
}

/* Cuts the last name off. */
static const char *folder_of(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash)
        return ".";
    slash[slash == path] = '\0';
    return path;
}

static int allow_log(int ruleset, const char *path)
{
    char real[PATH_MAX];
    struct stat st;

    if (!realpath(path, real) || stat(real, &st) < 0 ||
        (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode)))
        return allow_path(ruleset, path, fs_write_file);
    return allow_path(ruleset, folder_of(real), fs_write_file | fs_make_reg);
}

static int allow_again(int ruleset, const char *path, size_t len)
{
    char name[PATH_MAX], real[PATH_MAX];
    int err;

    if (len >= sizeof(name))
        return 0;
    memcpy(name, path, len);
    name[len] = '\0';
    err = realpath(name, real) ? allow_path(ruleset, folder_of(real), fs_read_file) : -errno;
    if (!err)
        err = allow_path(ruleset, folder_of(name), fs_read_file);
    return err == -EACCES || err == -ENOENT ? 0 : err;
}

/* Items are "CERT,KEY", or one of these, or "self". */
static int allow_certificates(int ruleset, const struct tls_pairs *list)
{
    int err = 0;

    for (unsigned i = 0; i < list->count && !err; i++) {
        const char *item = list->item[i], *comma = strchr(item, ',');

        if (strcmp(item, "self") == 0)
            continue;
        err = allow_again(ruleset, item, comma ? (size_t)(comma - item) : strlen(item));
        if (!err && comma)
            err = allow_again(ruleset, comma + 1, strlen(comma + 1));
    }
    if (!err && list->client_ca)
        err = allow_again(ruleset, list->client_ca, strlen(list->client_ca));
    return err;
}

/* Facts about the kernel that a worker reads when it begins; the descriptors stay open. */
enum { FACTS = 3 };

static void open_facts(int fds[FACTS])
{
    fds[0] = mounts_keep();
    fds[1] = open("/proc/sys/fs/inotify/max_user_watches", O_PATH | O_CLOEXEC);
    fds[2] = open("/proc/sys/vm/max_map_count", O_PATH | O_CLOEXEC);
}

static int add_rules(int ruleset, const struct sandbox_files *files, const int facts[FACTS])
{
    int err = 0;

    for (unsigned i = 0; i < files->roots && !err; i++) {
        err = allow(ruleset, files->root[i].fd,
                    fs_read_file | (files->root[i].listed ? fs_read_dir : 0));
        if (!err && files->root[i].stored >= 0)
            err = allow(ruleset, files->root[i].stored, fs_write_file | fs_make_reg);
    }
    for (unsigned i = 0; i < files->logs && !err; i++)
        err = allow_log(ruleset, files->log[i]);
    if (!err && files->certificates)
        err = allow_certificates(ruleset, files->certificates);
    for (unsigned i = 0; i < FACTS && !err; i++)
        err = facts[i] < 0 ? 0 : allow(ruleset, facts[i], fs_read_file);
    return err;
}

int sandbox_files_enter(const struct sandbox_files *files)
{
    int version = sandbox_files_version(), facts[FACTS], ruleset, err;

    if (version < 0)
        return version;
    open_facts(facts); /* first: numbers freed below must not be under theirs (fork.c) */
    ruleset = ruleset_open(version);
    if (ruleset < 0)
        return ruleset;
    err = add_rules(ruleset, files, facts);
    if (!err && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        err = -errno;
    close(ruleset);
    return err;
}
