/* SPDX-License-Identifier: MIT */
/* upload_open.c - the folder that --upload names: read, and tried at the start. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../base/say.h"
#include "upload.h"

int upload_find(char **at, const char *named)
{
    size_t len = strlen(named), n = 1;
    char *path = malloc(len + 3);

    if (!path) {
        say_error("cannot start: %s", say_why(ENOMEM));
        return EXIT_FAILED;
    }
    *path = '/';
    for (size_t i = 0, part; i < len; i += part + 1) {
        part = strcspn(named + i, "/");
        if (part == 0 || (part == 1 && named[i] == '.'))
            continue;
        memcpy(path + n, named + i, part);
        n += part;
        path[n++] = '/';
    }
    path[n] = '\0';
    if (n + NAME_BYTES_MAX < PATH_BYTES_MAX && !strstr(path, "/../")) {
        *at = path;
        return EXIT_DONE;
    }
    say_error("--upload '%s': name a folder below the one that is served, or '.' for that one",
              named);
    free(path);
    return EXIT_USAGE;
}

/* What a status of upload_file.c means at the start. */
static const char *why_not(int status, bool folder)
{
    switch (status) {
    case -404:
        return "there is no such folder below the one that is served; make it first";
    case -403:
        return folder ? "a link leads there, or this user may not enter it"
                      : "this user may not write there; see --user";
    default:
        return folder ? "it cannot be opened"
                      : "its file system has no files without a name (O_TMPFILE), so that others "
                        "would see parts of files; use a folder on another, such as ext4, XFS, "
                        "Btrfs or tmpfs";
    }
}

int upload_try(const struct upload_to *to)
{
    int folder = upload_folder_open(to->root_fd, to->at), file = -1;
    const char *why = NULL;

    if (upload_is_hidden(to->rules, (struct slice){to->at, strlen(to->at)}))
        why = "a name that begins with a dot is not served; see --hidden";
    else if (folder < 0)
        why = why_not(folder, true);
    else if ((file = upload_file_open(folder)) < 0)
        why = why_not(file, false);
    else if (access("/proc/self/fd", X_OK) < 0)
        why = "a file gets its name by /proc/self/fd, which is not there";
    if (file >= 0)
        close(file);
    if (folder >= 0)
        close(folder);
    if (why)
        say_error("--upload %s: %s", to->at, why);
    return why ? EXIT_FAILED : EXIT_DONE;
}
