/* SPDX-License-Identifier: MIT */
/* blame.c - whose fault it is that an answer differs from a file: the file may have changed. */
#include <sys/stat.h>
#include "workload.h"

static bool has_changed(const char *path, uint64_t mark)
{
    struct stat st;

    return stat(path, &st) != 0 || files_mark(&st) != mark;
}

enum fault files_blame(const struct plan *p, const struct target *t, enum kind kind,
                       enum fault what)
{
    char path[FILE_PATH_BYTES + SUFFIX_BYTES];
    const struct file *sibling = mix_sibling(p, t, kind);
    bool of_bytes = what == FAULT_WRONG_BODY || what == FAULT_WRONG_LENGTH ||
                    what == FAULT_SHORT_BODY || what == FAULT_WRONG_FIELD;
    bool of_part = kind == KIND_RANGE && what == FAULT_BAD_STATUS; /* 416: the file got shorter */

    if (!p->opt->check || !t->has_body || !(of_bytes || of_part) ||
        files_path(p, t->url, path) != 0)
        return what;
    if (has_changed(path, t->mark))
        return FAULT_FILE_CHANGED;
    if (!sibling || !sibling->bytes.ptr)
        return what;
    memcpy(path + strlen(path), mix_suffix(kind), SUFFIX_BYTES);
    return has_changed(path, sibling->mark) ? FAULT_FILE_CHANGED : what;
}
