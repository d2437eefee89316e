/* SPDX-License-Identifier: MIT */
/* hosts_open.c - from options to sites: what is checked and read before any right is given up, and
 * the folders that are opened after that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "../base/toml.h"
#include "digest.h"
#include "hosts.h"
#include "pack.h"

/* --- One site --------------------------------------------------------------------------------- */

/* A single file is its folder's index, and the only thing in it. */
static struct docroot_rules rules_of(const struct serve_options *opt, const char *only,
                                     const char *upload)
{
    if (only)
        return (struct docroot_rules){.index = only + 1, .hidden = true};
    return (struct docroot_rules){.index = opt->index, .hidden = opt->hidden,
                                  .listing = opt->listing, .archive = opt->archive,
                                  .precompressed = opt->precompressed, .upload = upload,
                                  .entries_max = opt->listing_max};
}

/* Checks that a single row of options.def cannot make. */
static int check_options(const struct serve_options *opt, const char *only)
{
    struct docroot_rules rules = rules_of(opt, only, NULL);

    if (docroot_settle(&rules)) {
        say_error("--index '%s': it is a name in every folder, not a path; it has at most %d bytes",
                  opt->index, NAME_BYTES_MAX);
        return EXIT_USAGE;
    }
    if (only && (opt->spa || opt->pretty_urls)) {
        say_error("--%s: a single file is served; name its folder",
                  opt->spa ? "spa" : "pretty-urls");
        return EXIT_USAGE;
    }
    if (only && opt->upload) {
        say_error("--upload: a single file is served; name its folder");
        return EXIT_USAGE;
    }
    if (opt->archive && (only || !opt->listing)) {
        say_error("--archive: %s", only ? "a single file is served; name its folder" :
                  "with --listing off no folder can be downloaded either");
        return EXIT_USAGE;
    }
    if (opt->archive && !pack_can()) {
        say_error("--archive: libarchive cannot be loaded; install libarchive13, or, if this rung "
                  "was built without it, libarchive-dev and zlib1g-dev, and build it again");
        return EXIT_MISSING;
    }
    if (opt->archive)
        digest_prepare();
    return EXIT_DONE;
}

static int open_one(struct hosted *h, const char *named)
{
    int code = served_find(&h->what, named);

    if (!code)
        code = check_options(h->opt, h->what.file);
    if (!code && h->opt->upload)
        code = upload_find(&h->upload_at, h->opt->upload);
    if (!code)
        code = route_open(&h->route, h->opt, h->what.file);
    return code;
}

static int open_upload(struct hosted *h)
{
    if (!h->upload_at)
        return EXIT_DONE;
    h->upload = (struct upload_to){.at = h->upload_at, .bytes_max = h->opt->upload_max,
                                   .rules = site_rules(h->site), .root_fd = site_root(h->site)};
    return upload_try(&h->upload);
}

const struct upload_to *hosts_upload(const struct hosts *h, unsigned number)
{
    return h && h->row[number].upload_at ? &h->row[number].upload : NULL;
}

bool hosts_take_uploads(const struct hosts *h)
{
    bool any = false;

    for (unsigned i = 0; h && i < h->count; i++)
        any = any || h->row[i].upload_at;
    return any;
}

static int open_site(struct hosted *h, const struct serve_options *process,
                     const struct site *beside)
{
    const char *folder = h->what.folder;
    const struct site_options site = {.root = folder,
                                      .rules = rules_of(h->opt, h->what.file, h->upload_at),
                                      .readme = h->opt->readme, .compress = h->opt->compress,
                                      .moves = h->route.moves, .beside = beside,
                                      .all = process->user != NULL};
    const char *why = "open folder";
    int err = access(folder, R_OK | X_OK) < 0 ? -errno : site_open(&h->site, &site, &why);

    if (!err)
        return open_upload(h);
    say_error("cannot serve %s: %s: %s; check its permissions%s%s", folder, why, say_why(err),
              process->user ? " for user " : "", process->user ? process->user : "");
    return EXIT_FAILED;
}

int hosts_open_sites(struct hosts *h, const struct serve_options *opt)
{
    int code = EXIT_DONE;

    for (unsigned i = 0; i < h->count && !code; i++)
        code = open_site(&h->row[i], opt, i ? h->row[0].site : NULL);
    return code;
}

/* --- Names ------------------------------------------------------------------------------------ */

static const char *name_of(const struct serve_host *host, unsigned i)
{
    return host->names[1 + i].text;
}

static int add_name(struct hosts *h, const struct serve_config *config, unsigned number, unsigned i)
{
    const struct serve_host *host = h->row[number].host;
    int err = hosts_name(h, name_of(host, i), number);

    if (!err && i == 0 && number && !h->row[0].host &&
        strcasecmp(name_of(host, i), HOSTS_DEFAULT) == 0) {
        say_error("%s:%u: name: '%s' is what logs and metrics call the site at the top; write "
                  "another name first", config->opt.config, host->names[1].line, name_of(host, 0));
        return EXIT_USAGE;
    }
    if (err == -EINVAL)
        say_error("%s:%u: name: '%s' is not a name of a host; write \"example.org\" or "
                  "\"*.example.org\", without a port", config->opt.config, host->names[1 + i].line,
                  name_of(host, i));
    else if (err)
        say_error("%s:%u: name: '%s' is given twice; each name has one [[host]]",
                  config->opt.config, host->names[1 + i].line, name_of(host, i));
    return err ? EXIT_USAGE : EXIT_DONE;
}

static int add_names(struct hosts *h, const struct serve_config *config, unsigned number)
{
    const struct serve_host *host = h->row[number].host;
    int code = EXIT_DONE;

    for (unsigned i = 0; host && i < host->names->count && !code; i++)
        code = add_name(h, config, number, i);
    return code;
}

/* --- Certificates ----------------------------------------------------------------------------- */

static void add_pairs(const char **item, unsigned *n, const struct option_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        item[(*n)++] = list->item[i];
}

/* Adds the certificates at the top of the file first: the first of all is for every name that no
 * other certificate has. */
static int add_certificates(struct hosts *h, const struct serve_config *config)
{
    const char **item = calloc((config->hosts + 1) * OPTION_LIST_MAX, sizeof(*item));
    unsigned n = 0;

    if (!item)
        return EXIT_FAILED;
    add_pairs(item, &n, &config->opt.tls);
    for (unsigned i = 0; i < config->hosts; i++)
        if (config->host[i].certified)
            add_pairs(item, &n, &config->host[i].opt.tls);
    h->tls = (struct tls_pairs){item, n, config->opt.tls_client_ca};
    return EXIT_DONE;
}

/* --- All -------------------------------------------------------------------------------------- */

/* Memory for the sites and their names. */
static struct hosts *hosts_new(const struct serve_config *config)
{
    unsigned count = config->hosts + (config->root != NULL), names = 0;
    struct hosts *h = calloc(1, sizeof(*h) + count * sizeof(h->row[0]));

    for (unsigned i = 0; i < config->hosts; i++)
        names += config->host[i].names->count;
    if (h && names)
        h->name = calloc(names, sizeof(*h->name));
    if (h && (add_certificates(h, config) || (names && !h->name))) {
        hosts_close(h);
        h = NULL;
    }
    if (!h)
        say_error("cannot start: %s", say_why(ENOMEM));
    return h;
}

/* A host is called by the first of its names, as the file has it. */
static int fill(struct hosts *h, const struct serve_config *config)
{
    int code = EXIT_DONE;

    if (config->root) {
        h->row[h->count++].opt = &config->opt;
        h->row[0].label = config->hosts ? HOSTS_DEFAULT : NULL;
        code = open_one(&h->row[0], config->root);
    }
    for (unsigned i = 0; i < config->hosts && !code; i++) {
        const struct serve_host *host = &config->host[i];
        unsigned number = h->count++;

        h->row[number].opt = &host->opt;
        h->row[number].host = host;
        h->row[number].label = name_of(host, 0);
        code = open_one(&h->row[number], host->root);
        if (code)
            say_error("%s:%u: this is about that [[host]]", config->opt.config, host->line);
        else
            code = add_names(h, config, number);
    }
    return code;
}

int hosts_open(struct hosts **hosts, const struct serve_config *config)
{
    struct hosts *h = hosts_new(config);
    int code = h ? fill(h, config) : EXIT_FAILED;

    if (code)
        hosts_close(h);
    else
        *hosts = h;
    return code;
}

void hosts_close(struct hosts *h)
{
    if (!h)
        return;
    for (unsigned i = 0; i < h->count; i++) {
        site_close(h->row[i].site);
        free(h->row[i].upload_at);
        route_close(&h->row[i].route);
        served_drop(&h->row[i].what);
    }
    free((void *)(uintptr_t)h->tls.item);
    free(h->name);
    free(h);
}

unsigned hosts_labelled(const struct hosts *h)
{
    return h->row[0].label ? h->count : 0;
}

void hosts_say(const struct hosts *h)
{
    for (unsigned i = 0; i < h->count; i++) {
        const struct hosted *row = &h->row[i];

        if (row->host)
            say("host %s%s: %s%s%s", name_of(row->host, 0),
                row->host->names->count > 1 ? " and its other names" : "", row->what.folder,
                row->what.file ? row->what.file : "", i ? "" : ", also for unknown names");
    }
}
