/* SPDX-License-Identifier: MIT */
/* served.c - the folder that is served, or the single file of a folder that is not.
 *
 * A file is looked up by its name for each request, as in a folder, so that a new file that is
 * renamed over it is sent from then on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "serve.h"

/* path is absolute and has no links.  Cuts it in two. */
static bool take_file(struct served *s, const char *path)
{
    const char *slash = strrchr(path, '/');

    s->folder = slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
    s->file = strdup(slash);
    return s->folder && s->file;
}

int served_find(struct served *s, const char *named)
{
    char *path = realpath(named, NULL);
    bool taken = true;
    struct stat st;

    *s = (struct served){0};
    if (!path || stat(path, &st) < 0) {
        say_error("cannot serve '%s': %s; name a folder or a file, or nothing for this folder",
                  named, say_why(errno));
        free(path);
        return EXIT_USAGE;
    }
    if (S_ISDIR(st.st_mode)) {
        s->folder = path;
        return EXIT_DONE;
    }
    if (S_ISREG(st.st_mode))
        taken = take_file(s, path);
    else
        say_error("cannot serve '%s': it is neither a folder nor a file", named);
    free(path);
    if (!taken)
        say_error("cannot start: %s", say_why(ENOMEM));
    if (taken && s->folder)
        return EXIT_DONE;
    served_drop(s);
    return taken ? EXIT_USAGE : EXIT_FAILED;
}

void served_drop(struct served *s)
{
    free(s->folder);
    free(s->file);
    *s = (struct served){0};
}
