/* SPDX-License-Identifier: MIT */
/* output.c - where results go: files that were named, or standard output.
 *
 * Whether a file can be written is checked before the run, so that no user waits an hour to learn
 * it; an existing file stays until the result replaces it.  Every error of writing is reported.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../../base/escape.h"
#include "../../base/say.h"
#include "load.h"

enum { FORMS = 4 };

bool output_is_std(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static int refuse(const char *path, int error)
{
    say_error("cannot write %s: %s", output_is_std(path) ? "to standard output" : path,
              say_why(error));
    return EXIT_FAILED;
}

/* 0 or -errno.  Devices and pipes report errors when they are opened. */
static int probe(const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (fd >= 0) {
        close(fd);
        unlink(path);
        return 0;
    }
    if (errno != EEXIST)
        return -errno;
    if (stat(path, &st) != 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return 0;
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

int output_check(const struct load_options *o)
{
    const char *path[FORMS] = {o->json, o->csv, o->hgrm, o->samples};
    int err = 0;

    for (unsigned i = 0; i < FORMS; i++)
        for (unsigned j = 0; j < i; j++)
            if (path[i] && path[j] && strcmp(path[i], path[j]) == 0) {
                say_error("--json, --csv, --hgrm and --samples: two of them would be written to %s",
                          path[i]);
                return EXIT_USAGE;
            }
    for (unsigned i = 0; i < FORMS; i++) {
        if (path[i] && !output_is_std(path[i]))
            err = probe(path[i]);
        if (err)
            return refuse(path[i], err);
    }
    return 0;
}

bool output_has_report(const struct load_options *o)
{
    return !o->quiet && !output_is_std(o->json) && !output_is_std(o->csv) &&
           !output_is_std(o->hgrm) && !output_is_std(o->samples);
}

FILE *output_open(const char *path)
{
    FILE *out = output_is_std(path) ? stdout : fopen(path, "we");

    if (!out)
        refuse(path, errno);
    return out;
}

int output_close(FILE *out, const char *path)
{
    int err = fflush(out) != 0 ? errno : ferror(out) ? EIO : 0;

    if (out != stdout && fclose(out) != 0 && !err)
        err = errno;
    return err ? refuse(path, err) : 0;
}

void output_string(FILE *out, const char *text)
{
    enum { PIECE = 256 }; /* bytes at a time, each of which may become six */
    char safe[6 * PIECE + 8];
    struct slice piece = {text, 0};

    fprintf(out, "\"");
    for (size_t left = strlen(text); left; left -= piece.len, piece.ptr += piece.len) {
        piece.len = left < PIECE ? left : PIECE;
        escape_json(safe, sizeof(safe), piece);
        fprintf(out, "%s", safe);
    }
    fprintf(out, "\"");
}
