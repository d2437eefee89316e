/* SPDX-License-Identifier: MIT */
/* pack.c - tar and zip by libarchive.
 *
 * The library is loaded only by a server that may need it: it loads a dozen others, with which an
 * idle server has more than twice the memory.
 *
 * A pack does not contain the owners of files.  Compression is at the fastest level, because the
 * bytes are made again for each client.  A tar is compressed as a whole or not at all; a zip
 * compresses the entries that are worth it.
 *
 * A pack that is given up in the middle of an entry must end at once and leak nothing.  With
 * libarchive alone it does not: closing it first fills the entry of a tar up with zeros, and not
 * closing it leaks the state of a compressor.  So for a tar this file calls zlib itself, and never
 * reports to libarchive that the sink has failed: from then on the bytes are dropped.
 *
 * libarchive takes the coding of names from the locale of the calling thread.  A tar has the bytes
 * of a name as they are.  A zip marks a name as UTF-8; because many readers refuse a whole file for
 * one name that is marked and is none, such a name is not marked.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <time.h>
#include <zlib.h>
#include "pack.h"

enum {
    CODED_BYTES = 16 << 10,
    GZIP_WINDOW = 15 + 16, /* of zlib: the largest window, and the format of gzip */
    MEMORY_LEVEL = 8,      /* zlib's default */
};

struct pack {
    enum pack_form form;
    struct archive *writer;
    struct archive_entry *entry;
    struct pack_sink sink;
    int err;       /* the sink's, or zlib's */
    bool deflates; /* gzip is open */
    z_stream gzip;
    unsigned char coded[CODED_BYTES];
};

#define CALLS(X) \
    X(archive_entry_clear) \
    X(archive_entry_copy_pathname) \
    X(archive_entry_free) \
    X(archive_entry_new) \
    X(archive_entry_set_filetype) \
    X(archive_entry_set_mtime) \
    X(archive_entry_set_perm) \
    X(archive_entry_set_size) \
    X(archive_errno) \
    X(archive_write_close) \
    X(archive_write_data) \
    X(archive_write_fail) \
    X(archive_write_finish_entry) \
    X(archive_write_free) \
    X(archive_write_header) \
    X(archive_write_new) \
    X(archive_write_open) \
    X(archive_write_set_bytes_per_block) \
    X(archive_write_set_format_gnutar) \
    X(archive_write_set_format_option) \
    X(archive_write_set_format_zip) \
    X(archive_write_zip_set_compression_deflate) \
    X(archive_write_zip_set_compression_store)

/* Set once, by pack_can(). */
static struct {
#define X(name) __typeof__(name) *name;
    CALLS(X)
#undef X
} la;
static locale_t utf8, plain;

/* --- Bytes that were written ------------------------------------------------------------------ */

static void give(struct pack *p, const void *bytes, size_t n)
{
    if (!p->err && n)
        p->err = p->sink.take(p->sink.arg, bytes, n);
}

/* Compresses bytes.  flush: Z_NO_FLUSH, or Z_FINISH: they are the last ones. */
static void deflate_some(struct pack *p, const void *bytes, size_t n, int flush)
{
    int result = Z_OK;

    p->gzip.next_in = (unsigned char *)(uintptr_t)bytes;
    p->gzip.avail_in = (unsigned)n;
    do {
        p->gzip.next_out = p->coded;
        p->gzip.avail_out = sizeof(p->coded);
        result = deflate(&p->gzip, flush);
        give(p, p->coded, sizeof(p->coded) - p->gzip.avail_out);
    } while (!p->err && result == Z_OK && p->gzip.avail_out == 0);
    if (!p->err && result == Z_STREAM_ERROR)
        p->err = -EIO;
}

static la_ssize_t take(struct archive *writer, void *arg, const void *bytes, size_t n)
{
    struct pack *p = arg;

    (void)writer;
    if (p->deflates && !p->err)
        deflate_some(p, bytes, n, Z_NO_FLUSH);
    else
        give(p, bytes, n);
    return (la_ssize_t)n;
}

/* The result of a call of libarchive.  A warning is an error, too: the name, or what else it is
 * about, cannot be written as it is. */
static int error_of(const struct pack *p, int result)
{
    if (p->err || result == ARCHIVE_OK)
        return p->err;
    return la.archive_errno(p->writer) == ENOMEM ? -ENOMEM : -EIO;
}

/* --- Open and close --------------------------------------------------------------------------- */

static int open_writer(struct pack *p)
{
    int result = p->form == PACK_ZIP ? la.archive_write_set_format_zip(p->writer) :
                                       la.archive_write_set_format_gnutar(p->writer);

    if (result == ARCHIVE_OK && p->form == PACK_ZIP)
        result = la.archive_write_set_format_option(p->writer, "zip", "compression-level", "1");
    if (result == ARCHIVE_OK)
        result = la.archive_write_set_bytes_per_block(p->writer, 0);
    if (result == ARCHIVE_OK)
        result = la.archive_write_open(p->writer, p, NULL, take, NULL);
    return error_of(p, result);
}

int pack_open(struct pack **pack, enum pack_form form, struct pack_sink sink)
{
    struct pack *p = calloc(1, sizeof(*p));
    int err = -ENOMEM;

    if (!p)
        return err;
    p->form = form;
    p->sink = sink;
    p->writer = la.archive_write_new();
    p->entry = la.archive_entry_new();
    if (form == PACK_TAR_GZ)
        p->deflates = deflateInit2(&p->gzip, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
                                   Z_DEFAULT_STRATEGY) == Z_OK;
    if (p->writer && p->entry && p->deflates == (form == PACK_TAR_GZ))
        err = open_writer(p);
    if (err)
        pack_close(p);
    else
        *pack = p;
    return err;
}

static int drop(void *arg, const void *bytes, size_t n)
{
    (void)arg;
    (void)bytes;
    (void)n;
    return 0;
}

/* The library stays. */
static bool load(void)
{
    void *lib = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
    bool whole = lib;

#define X(name) \
    la.name = lib ? (__typeof__(name) *)dlsym(lib, #name) : NULL; \
    whole = whole && la.name;
    CALLS(X)
#undef X
    return whole;
}

/* Writes a pack with such a name that the C library loads its tables for names: a table that it
 * cannot load when memory is short, it never tries to load again. */
static bool try_form(enum pack_form form)
{
    const struct pack_entry entry = {.name = "\xc3\xa4"};
    struct pack *p;
    int err = pack_open(&p, form, (struct pack_sink){drop, NULL});

    if (err)
        return false;
    err = pack_begin(p, &entry);
    pack_close(p);
    return !err;
}

bool pack_can(void)
{
    if (!load())
        return false;
    tzset(); /* a zip has local times; later the file with the time zone is out of reach */
    if (!utf8)
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!plain)
        plain = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
    for (enum pack_form form = PACK_NONE + 1; utf8 && plain && form < PACK_FORMS; form++)
        if (!try_form(form))
            return false;
    return utf8 && plain;
}

void pack_close(struct pack *p)
{
    if (!p)
        return;
    p->err = p->err ? p->err : -ECANCELED; /* whatever comes now is dropped */
    if (p->writer && p->form != PACK_ZIP)
        (void)la.archive_write_fail(p->writer); /* so that close() does not fill up the entry */
    if (p->writer) {
        (void)la.archive_write_close(p->writer);
        la.archive_write_free(p->writer);
    }
    if (p->deflates)
        (void)deflateEnd(&p->gzip);
    la.archive_entry_free(p->entry);
    free(p);
}

/* --- Entries ---------------------------------------------------------------------------------- */

int pack_begin(struct pack *p, const struct pack_entry *entry)
{
    locale_t before = uselocale(utf8);
    int result = ARCHIVE_OK;

    if (mbstowcs(NULL, entry->name, 0) == (size_t)-1)
        (void)uselocale(plain);
    la.archive_entry_clear(p->entry);
    la.archive_entry_copy_pathname(p->entry, entry->name);
    la.archive_entry_set_filetype(p->entry, entry->folder ? AE_IFDIR : AE_IFREG);
    la.archive_entry_set_perm(p->entry, entry->folder ? 0755 : 0644);
    la.archive_entry_set_mtime(p->entry, entry->mtime_s, 0);
    la.archive_entry_set_size(p->entry, (la_int64_t)entry->size);
    if (p->form == PACK_ZIP && entry->compresses)
        result = la.archive_write_zip_set_compression_deflate(p->writer);
    else if (p->form == PACK_ZIP)
        result = la.archive_write_zip_set_compression_store(p->writer);
    if (result == ARCHIVE_OK)
        result = la.archive_write_header(p->writer, p->entry);
    (void)uselocale(before);
    return error_of(p, result);
}

int pack_write(struct pack *p, const void *bytes, size_t n)
{
    la_ssize_t written = la.archive_write_data(p->writer, bytes, n);

    return error_of(p, written == (la_ssize_t)n ? ARCHIVE_OK : ARCHIVE_FATAL);
}

int pack_end(struct pack *p)
{
    return error_of(p, la.archive_write_finish_entry(p->writer));
}

int pack_finish(struct pack *p)
{
    int err = error_of(p, la.archive_write_close(p->writer));

    if (!err && p->deflates)
        deflate_some(p, "", 0, Z_FINISH);
    return err ? err : p->err;
}
