/* SPDX-License-Identifier: MIT */
/* module.c - the modules that use rung_core: their names, models and counters, as sysfs and debugfs
 * have them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
#include "kernel.h"

#define HOLDERS "/sys/module/rung_core/holders"

/* Finds the name of the only module; returns how many modules there are. */
static unsigned only(char name[MODULE_TEXT])
{
    DIR *folder = opendir(HOLDERS);
    struct dirent *entry;
    unsigned n = 0;

    while (folder && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.') {
            snprintf(name, MODULE_TEXT, "%.*s", MODULE_TEXT - 1, entry->d_name);
            n++;
        }
    if (folder)
        closedir(folder);
    return n;
}

int module_find(struct module *m, const char *name)
{
    char path[256], *model;
    unsigned n = only(m->name);

    if (!name && n != 1) {
        say_error(n ? "there are %u modules on rung_core: --module NAME says which; lsmod lists "
                      "them" : "no module of rung's serves here: insmod rung_http.ko; "
                               "docs/kernel.md has more", n);
        return EXIT_FAILED;
    }
    if (name)
        snprintf(m->name, sizeof(m->name), "%.*s", MODULE_TEXT - 1, name);
    snprintf(path, sizeof(path), "/sys/module/%s/parameters/model", m->name);
    model = strchr(m->name, '/') ? NULL : tracefs_read(AT_FDCWD, path);
    if (!model || !n) {
        free(model);
        say_error("--module %s: there is no such module of rung's; ls " HOLDERS " lists them",
                  m->name);
        return EXIT_FAILED;
    }
    snprintf(m->model, sizeof(m->model), "%.*s", (int)strcspn(model, "\n"), model);
    free(model);
    return 0;
}

/* debugfs, mounted or not: a descriptor of its folder or -errno. */
static int debugfs(void)
{
    int fd = open("/sys/kernel/debug", O_RDONLY | O_DIRECTORY | O_CLOEXEC), context;

    if (fd >= 0 && faccessat(fd, "tracing", F_OK, 0) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    context = fsopen("debugfs", FSOPEN_CLOEXEC);
    if (context < 0)
        return -errno;
    fd = fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0
             ? fsmount(context, FSMOUNT_CLOEXEC, 0) : -1;
    close(context);
    return fd < 0 ? -ENOENT : fd;
}

bool module_answers(const struct module *m, uint64_t *n)
{
    int at = debugfs();
    char path[MODULE_TEXT + 8], *text, *found;

    if (at < 0)
        return false;
    snprintf(path, sizeof(path), "%s/stats", m->name);
    text = tracefs_read(at, path);
    close(at);
    found = text ? strstr(text, "\nanswers ") : NULL;
    *n = found ? strtoull(found + strlen("\nanswers "), NULL, 10) : 0;
    free(text);
    return found != NULL;
}
