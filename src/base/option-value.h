/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_OPTION_VALUE_H
#define LARDER_BASE_OPTION_VALUE_H

#include "base/options.h"

/* For options.c. The old value stays on failure; a list gets one more. */
int option_value_set(const struct option_def *def, void *target,
		     const char *text);
/* What it takes: "a number". */
const char *option_value_wanted(const struct option_def *def);
/* Why that failed with r, where it stands; returns r. */
int option_value_error(const struct option_def *def, const char *where,
		     const char *text, int r, struct err *err);
void option_list_release(struct option_list *list);

#endif
