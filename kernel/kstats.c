/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kstats.c - the counters of a module, readable at any time: NAME/stats in debugfs.  The totals are
 * logged when the server has ended.
 *
 * Each processor counts for itself, without locks; reading adds the counts up.  There is one line
 * for each counter: its name and its value, which never goes down.  A read during traffic does not
 * show a single moment: accepted = open + closed holds exactly when nothing happens.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include "kinside.h"

static const char *const names[KSTATS] = {
#define X(NAME, name, what) #name,
#include "kstats.def"
#undef X
};

static unsigned long sum(const struct kserve *s, enum kstat_id stat)
{
    unsigned long total = 0;
    int cpu;

    for_each_possible_cpu(cpu)
        total += READ_ONCE(per_cpu_ptr(s->percpu, cpu)->stat[stat]);
    return total;
}

static int stats_show(struct seq_file *out, void *unused)
{
    const struct kserve *s = out->private;
    unsigned i;

    seq_printf(out, "model %s\nport %u\nseats %u\nopen %d\nbuffer_bytes %ld\n",
               kmodel_names[s->opt.model], s->port, s->conn_max, atomic_read(&s->live),
               atomic_long_read(&s->buffer_bytes));
    for (i = 0; i < KSTATS; i++)
        seq_printf(out, "%s %lu\n", names[i], sum(s, i));
    return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

void kstats_open(struct kserve *s)
{
    s->debugfs = debugfs_create_dir(s->name, NULL);
    debugfs_create_file("stats", 0444, s->debugfs, s, &stats_fops);
}

void kstats_close(struct kserve *s)
{
    debugfs_remove(s->debugfs);
}

/* After the word "errors", every counter of something that failed. */
void kstats_log(const struct kserve *s)
{
    pr_info("%s: accepted %lu, closed %lu, receives %lu, sends %lu, ends %lu, bytes %lu; errors: "
            "accept_errors %lu, receive_errors %lu, send_errors %lu, refused %lu, no_buffer %lu, "
            "broken %lu\n",
            s->name, sum(s, KSTAT_ACCEPTED), sum(s, KSTAT_CLOSED), sum(s, KSTAT_RECEIVES),
            sum(s, KSTAT_SENDS), sum(s, KSTAT_ENDS), sum(s, KSTAT_BYTES),
            sum(s, KSTAT_ACCEPT_ERRORS), sum(s, KSTAT_RECEIVE_ERRORS),
            sum(s, KSTAT_SEND_ERRORS), sum(s, KSTAT_REFUSED), sum(s, KSTAT_NO_BUFFER),
            sum(s, KSTAT_BROKEN));
}

struct dentry *kserve_folder(const struct kserve *serve)
{
    return serve->debugfs;
}
EXPORT_SYMBOL_GPL(kserve_folder);
