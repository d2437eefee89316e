/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* core_check.c - what the core asks of the kernel beside mem* and strlen, somewhere to report a
 * broken promise; and what other modules take from the core.
 */
#include <linux/bug.h>
#include <linux/module.h>
#include "../core/http.h"
#include "../core/listing.h"
#include "../core/types.h"

void core_failed(const char *promise, const char *file, int line)
{
    WARN_ONCE(1, "rung: broken promise: %s (%s:%d)\n", promise, file, line);
}

EXPORT_SYMBOL_GPL(core_failed);
EXPORT_SYMBOL_GPL(http_proto);
EXPORT_SYMBOL_GPL(echo_proto);
EXPORT_SYMBOL_GPL(http_date_write);
EXPORT_SYMBOL_GPL(http_prefers);
EXPORT_SYMBOL_GPL(http_coding_suffix);
EXPORT_SYMBOL_GPL(http_fields_write);
EXPORT_SYMBOL_GPL(path_encode);
EXPORT_SYMBOL_GPL(path_is_hidden);
EXPORT_SYMBOL_GPL(name_is_hidden);
EXPORT_SYMBOL_GPL(slice_is_nocase);
EXPORT_SYMBOL_GPL(listing_view_read);
EXPORT_SYMBOL_GPL(listing_match);
EXPORT_SYMBOL_GPL(listing_compare);
EXPORT_SYMBOL_GPL(listing_count);
EXPORT_SYMBOL_GPL(listing_next);
EXPORT_SYMBOL_GPL(listing_rewind);
EXPORT_SYMBOL_GPL(listing_type);
EXPORT_SYMBOL_GPL(type_of);
EXPORT_SYMBOL_GPL(type_compresses);

MODULE_DESCRIPTION("rung: the core, and what serves connections inside the kernel");
MODULE_LICENSE("Dual MIT/GPL");
