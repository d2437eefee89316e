/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* http_main.c - rung_http: a folder served over HTTP from inside the kernel.
 *
 * Loading reads the parameters, opens the site and starts the server; unloading ends them in the
 * reverse order.  The folder is the one that the loading process sees under that name.
 */
#define KPARAMS_PORT 8080
#define KPARAMS_BODIES
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include "kcache.h"
#include "kparams.h"
#include "ksite.h"

static char *root;
module_param(root, charp, 0444);
MODULE_PARM_DESC(root, "folder to serve; must be given");

static char *index_name = "index.html";
module_param_named(index, index_name, charp, 0444);
MODULE_PARM_DESC(index, "file to send for a folder");

static bool listing = true, hidden, precompressed = true;
module_param(listing, bool, 0444);
MODULE_PARM_DESC(listing, "listing of a folder that has no index; off: 403");
module_param(hidden, bool, 0444);
MODULE_PARM_DESC(hidden, "names that begin with a dot are served too; .well-known always is");
module_param(precompressed, bool, 0444);
MODULE_PARM_DESC(precompressed,
                 "NAME.br, NAME.zst or NAME.gz sent for NAME to clients that accept it");

KPARAM_NUMBER(listing_max, 100000, 1, 10000000,
              "entries up to which a listing is sorted");

KPARAM_NUMBER(cache, 33554432, 0, 1073741824,
              "bytes of small files and listings kept in memory; 0: none are");
KPARAM_NUMBER(cache_time, 5000, 10, KCACHE_AGE_MS,
              "time an unused file stays in memory (ms); changes are seen at once");
static bool compress;
module_param(compress, bool, 0444);
MODULE_PARM_DESC(compress, "kept files are also kept as gzip, for clients that accept it");

static bool cross_mounts;
module_param(cross_mounts, bool, 0444);
MODULE_PARM_DESC(cross_mounts, "mounts below the folder are served too; off: 403");

static struct kserve *serve;
static struct ksite *site;

static int site_begin(void)
{
    const struct ksite_options opt = {
        .root = root,
        .rules = {.index = index_name, .hidden = hidden, .listing = listing,
                  .precompressed = precompressed, .entries_max = listing_max.value},
        .cache_bytes = cache.value,
        .cache_ms = cache_time.value,
        .compress = compress,
        .cross_mounts = cross_mounts,
    };
    int err = ksite_open(&site, &opt);

    if (err)
        pr_err("%s: cannot serve the folder %s: %pe\n", KBUILD_MODNAME, root, ERR_PTR(err));
    return err;
}

static int cache_show(struct seq_file *out, void *unused)
{
    struct ksite_counts c;

    ksite_count(site, &c);
    seq_printf(out, "hits %llu\nmisses %llu\nstale %llu\nexpired %llu\nevicted %llu\n", c.hits,
               c.misses, c.stale, c.expired, c.evicted);
    seq_printf(out, "entries %llu\nbytes %llu\nlisting_bytes %llu\nwalks %llu\n", c.entries,
               c.bytes, c.listing_bytes, c.walks);
    if (cache.value && compress)
        seq_puts(out, "compresses gzip\n");
    return 0;
}
DEFINE_SHOW_ATTRIBUTE(cache);

static int __init http_init(void)
{
    struct kworld world;
    struct kserve_options opt;
    int err = kparams_fill(&opt);

    if (err)
        return err;
    if (!root || !*root) {
        pr_err("%s: root=FOLDER says what to serve\n", KBUILD_MODNAME);
        return -EINVAL;
    }
    err = site_begin();
    if (err)
        return err;
    kworld_of_folder(&world, site);
    opt.body_bytes_max = max_body.value;
    err = kserve_open(&serve, &opt, &world);
    if (!err)
        debugfs_create_file("cache", 0444, kserve_folder(serve), NULL, &cache_fops);
    return err;
}

static void __exit http_exit(void)
{
    kserve_close(serve); /* the server closes the site */
}

module_init(http_init);
module_exit(http_exit);
MODULE_DESCRIPTION("rung: a web server inside the kernel");
MODULE_LICENSE("Dual MIT/GPL");
