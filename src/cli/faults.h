/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_FAULTS_H
#define LARDER_CLI_FAULTS_H

#include <stdint.h>

#include "base/vec.h"

/* What check and verify have found, for their reports: the first 10,000, the
 * rest is counted. Zeroed: none. */
struct fault {
	char *path, *text;
};
struct faults {
	VEC(struct fault) items;
};

void faults_add(struct faults *faults, const char *path, const char *text);
/* A line each, and how many of all there are not listed. */
void faults_print(const struct faults *faults, uint64_t count);
/* "faults": [...] */
void faults_print_json(const struct faults *faults);
void faults_release(struct faults *faults);

#endif
