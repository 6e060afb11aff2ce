/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_LAYOUT_H
#define LARDER_CACHE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

struct err;

/* The directory's fixed names. */
#define LAYOUT_VERSION_FILE "larder-cache"
#define LAYOUT_VERSION_TEXT "larder-cache 1\n"
#define LAYOUT_INDEX "index"
#define LAYOUT_BALLAST "ballast"
#define LAYOUT_GATE "locks/gate"
#define LAYOUT_CLAIMS "locks/claims"
#define LAYOUT_WAKE "locks/wake"
#define LAYOUT_BALLAST_BYTES (8u << 20)

/*
 * The name of a filesystem that cannot hold a cache (its locks, mappings or
 * speed are not those of a local disk), by statfs f_type; NULL if it can.
 */
const char *layout_refused_filesystem(uint64_t f_type);

/*
 * Makes what is missing and checks what is there. *ret_dir is the absolute
 * path (malloc), *ret_fd the directory. *ret_is_readonly: it can be read but
 * not written. Every refusal names the directory and what to do.
 */
int layout_open(const char *dir, char **ret_dir, int *ret_fd,
		bool *ret_is_readonly, struct err *err);

/* The 8 MiB that let the index commit on a full disk. */
void layout_ballast_make(int dirfd);
bool layout_ballast_drop(int dirfd); /* whether there was one */

#endif
