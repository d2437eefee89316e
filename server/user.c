/* SPDX-License-Identifier: MIT */
/* user.c - gives up root for another user (--user): finds and tries that user, then becomes it for
 * good. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "serve.h"

const struct passwd *user_find(const char *name, int *code)
{
    const struct passwd *user;

    *code = EXIT_USAGE;
    if (geteuid() != 0) {
        say_error("--user %s: only root can become another user; start with sudo, or leave --user "
                  "out", name);
        return NULL;
    }
    errno = 0;
    user = getpwnam(name);
    if (!user) {
        say_error("--user %s: %s; 'getent passwd' lists the users", name,
                  errno ? say_why(errno) : "there is no such user");
        return NULL;
    }
    return user;
}

bool user_become(const struct passwd *user)
{
    return initgroups(user->pw_name, user->pw_gid) == 0 && setgid(user->pw_gid) == 0 &&
           setuid(user->pw_uid) == 0;
}

int user_become_for_good(const struct passwd *user)
{
    const char *name = user->pw_name;
    uid_t real, effective, saved;

    if (!user_become(user) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        say_error("cannot become user %s: %s", name, say_why(errno));
        return EXIT_FAILED;
    }
    /* setuid() of root sets all three ids and empties the capabilities; a kernel that disagrees
     * is not trusted */
    if (setuid(0) == 0 || seteuid(0) == 0 || getresuid(&real, &effective, &saved) < 0 ||
        real != user->pw_uid || effective != user->pw_uid || saved != user->pw_uid) {
        say_error("became user %s, but the way back to root is open; not serving", name);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
