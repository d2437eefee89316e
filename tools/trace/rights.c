/* SPDX-License-Identifier: MIT */
/* rights.c - which capabilities this process lacks of those that tracing needs. */
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "trace.h"

static const struct {
    unsigned number;
    const char *name;
} needed[] = {{CAP_BPF, "CAP_BPF"}, {CAP_PERFMON, "CAP_PERFMON"}, {CAP_NET_ADMIN, "CAP_NET_ADMIN"}};

static bool has(const struct __user_cap_data_struct data[2], unsigned number)
{
    return data[number / 32].effective >> number % 32 & 1;
}

/* CAP_SYS_ADMIN stands for each of them: there was no other before Linux 5.8. */
void rights_missing(char text[RIGHTS_TEXT])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    size_t len = 0;

    text[0] = 0;
    if (syscall(SYS_capget, &header, data) != 0 || has(data, CAP_SYS_ADMIN))
        return;
    for (unsigned i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (has(data, needed[i].number))
            continue;
        snprintf(text + len, RIGHTS_TEXT - len, "%s%s", len ? ", " : "", needed[i].name);
        len += strlen(text + len);
    }
}
