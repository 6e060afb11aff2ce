/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_FIGURES_H
#define LARDER_CLI_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "mount/mount.h"

bool figure_has_number(const char *figures, const char *key, uint64_t *ret);
uint64_t figure_number(const char *figures, const char *key); /* 0: none */
/* 100 only when nothing is missing. */
unsigned figure_percent(uint64_t part, uint64_t whole);

/* ", "cache": {...}" and the like, for a mount's or dataset's JSON object;
 * nothing where nothing was told. */
void figures_print_cache(const char *figures);
void figures_print_process(const char *figures);
void figures_print_state(const struct mount_dataset_state *state);

#endif
