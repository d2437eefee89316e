/* SPDX-License-Identifier: MIT */
/* lines.c - reads a file line by line, whatever it is: a log, a list of URLs, or by mistake
 * /dev/zero.
 *
 * One buffer holds the longest line there may be.  A line that does not fit in it is refused, so
 * that no file takes more memory than that.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "../../base/say.h"
#include "workload.h"

int lines_open(struct lines *l, const char *path)
{
    l->number = 0;
    l->from = l->to = 0;
    l->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    return l->fd < 0 ? -errno : 0;
}

void lines_close(struct lines *l)
{
    if (l->fd > STDIN_FILENO)
        close(l->fd);
}

int lines_next(struct lines *l, char **text, size_t *bytes)
{
    size_t seen = 0; /* bytes of this line, without its end */
    char *end;
    ssize_t n = 1;

    while (!(end = memchr(l->buf + l->from + seen, '\n', l->to - l->from - seen)) && n > 0) {
        seen = l->to - l->from;
        if (seen > LINE_BYTES_MAX) {
            l->number++;
            return -EMSGSIZE;
        }
        memmove(l->buf, l->buf + l->from, seen);
        l->from = 0;
        n = read(l->fd, l->buf + seen, LINE_BYTES_MAX + 1 - seen);
        if (n < 0)
            return -errno;
        l->to = seen + (size_t)n;
    }
    if (!end && l->from == l->to)
        return 0;
    *text = l->buf + l->from;
    *bytes = (size_t)((end ? end : l->buf + l->to) - *text);
    l->from = end ? (size_t)(end + 1 - l->buf) : l->to;
    (*text)[*bytes] = 0;
    l->number++;
    return 1;
}

int lines_refuse(const struct lines *l, const char *option, const char *path, int err)
{
    if (err == -EMSGSIZE)
        say_error("%s: line %llu of %s has more than %d bytes; is it the right file?", option,
                  (unsigned long long)l->number, path, LINE_BYTES_MAX);
    else
        say_error("%s: cannot read %s: %s", option, path, say_why(err));
    return EXIT_USAGE;
}
