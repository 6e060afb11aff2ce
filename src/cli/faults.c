/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults of a mirror or a cache, kept until the work is done: a progress
 * line would tear a list that is printed meanwhile.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/faults.h"
#include "cli/mirror-command.h"

#define LISTED_MAX 10000u

void faults_add(struct faults *faults, const char *path, const char *text)
{
	struct fault *fault = NULL;

	if (faults->items.count < LISTED_MAX)
		fault = vec_push(&faults->items);
	if (!fault)
		return;
	fault->path = strdup(path);
	fault->text = strdup(text);
}

void faults_print(const struct faults *faults, uint64_t count)
{
	for (size_t i = 0; i < faults->items.count; i++)
		printf("  %s: %s\n", faults->items.items[i].path ?: "",
		       faults->items.items[i].text ?: "");
	if (count > faults->items.count)
		printf("  and %" PRIu64 " more\n", count - faults->items.count);
}

void faults_print_json(const struct faults *faults)
{
	printf("\"faults\": [");
	for (size_t i = 0; i < faults->items.count; i++) {
		printf("%s\n  {", i ? "," : "");
		print_json_member("path", faults->items.items[i].path ?: "");
		printf(", ");
		print_json_member("fault", faults->items.items[i].text ?: "");
		printf("}");
	}
	printf("%s]", faults->items.count ? "\n" : "");
}

void faults_release(struct faults *faults)
{
	for (size_t i = 0; i < faults->items.count; i++) {
		free(faults->items.items[i].path);
		free(faults->items.items[i].text);
	}
	vec_release(&faults->items);
}
