/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a file could not be read, for its user.larder.error: the last few
 * failures of a dataset. A file that reads well again loses its entry.
 */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "dataset/node.h"

static struct file_error *find(struct snapshot *snapshot, uint64_t number)
{
	struct dataset *dataset = snapshot->dataset;

	for (unsigned i = 0; i < FILE_ERRORS_MAX; i++) {
		struct file_error *error = &dataset->errors[i];

		if (error->text[0] && error->number == number &&
		    digest_equal(&error->snapshot, &snapshot->digest))
			return error;
	}
	return NULL;
}

void file_error_note(struct snapshot *snapshot, uint64_t number,
		     const char *text)
{
	struct dataset *dataset = snapshot->dataset;
	struct file_error *error;

	scoped_lock(&dataset->lock);
	error = find(snapshot, number);
	if (!error) {
		error = &dataset->errors[dataset->next_error];
		dataset->next_error =
			(dataset->next_error + 1) % FILE_ERRORS_MAX;
		if (!error->text[0])
			atomic_fetch_add(&dataset->error_count, 1);
	}
	error->snapshot = snapshot->digest;
	error->number = number;
	snprintf(error->text, sizeof(error->text), "%s",
		 text[0] ? text : "failed");
}

void file_error_clear(struct snapshot *snapshot, uint64_t number)
{
	struct dataset *dataset = snapshot->dataset;
	struct file_error *error;

	if (atomic_load_explicit(&dataset->error_count, memory_order_relaxed) ==
	    0)
		return;
	scoped_lock(&dataset->lock);
	error = find(snapshot, number);
	if (error) {
		error->text[0] = '\0';
		atomic_fetch_sub(&dataset->error_count, 1);
	}
}

bool file_error_read(struct snapshot *snapshot, uint64_t number, char *text,
		     size_t size)
{
	struct dataset *dataset = snapshot->dataset;
	struct file_error *error;

	if (atomic_load(&dataset->error_count) == 0)
		return false;
	scoped_lock(&dataset->lock);
	error = find(snapshot, number);
	if (error)
		snprintf(text, size, "%s", error->text);
	return error;
}
