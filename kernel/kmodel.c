/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kmodel.c - the models by name. */
#include <linux/export.h>
#include "kserve.h"

const char *const kmodel_names[KMODELS] = {"event", "softirq", "cmwq", "kthread"};
EXPORT_SYMBOL_GPL(kmodel_names);

bool kserve_runs_bound(enum kmodel model)
{
    return model == KMODEL_EVENT || model == KMODEL_SOFTIRQ;
}
EXPORT_SYMBOL_GPL(kserve_runs_bound);
