/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small files of a repository, fetched together when the first of them is
 * read: whoever opens a model reads its configuration, its tokenizer and its
 * index one after another, and each would cost a round trip of its own. Only
 * once the first has come, so that a refusal is met once. Files of LFS are left
 * out: they need a location each.
 */
#include <config.h>

#include <stdlib.h>

#include "dataset/hub.h"
#include "dataset/read.h"
#include "dataset/reference.h"

/* What belongs to a model is far less; a data set's thousands of small files
 * are read by whoever wants them. */
#define FILES_MAX 48u
#define BYTES_MAX (4u << 20)
#define LOOK_MAX 4096u

struct together {
	struct task task; /* first */
	struct dataset *dataset;
	struct catalog_object *catalog; /* counted */
};

static bool is_small(const struct catalog_blob *info)
{
	return info->kind == BLOB_REFERENCE &&
	       info->id.type == DIGEST_GIT_SHA1 &&
	       info->size <= REFERENCE_BLOCK_BYTES;
}

static void run(struct task *task, struct worker *worker)
{
	struct together *together = (struct together *)task;
	struct dataset *dataset = together->dataset;
	const struct catalog *catalog = together->catalog->catalog;
	uint32_t count = catalog_blob_count(catalog), files = 0;
	uint64_t bytes = 0;

	(void)worker;
	for (uint32_t i = 0; i < count && i < LOOK_MAX && files < FILES_MAX;
	     i++) {
		struct blob_source source = {0};
		struct catalog_blob info;
		struct blob *blob;

		catalog_get_blob(catalog, i, &info);
		if (!is_small(&info) || bytes + info.size > BYTES_MAX ||
		    reference_open(dataset, &info, &blob, NULL) < 0)
			continue;
		source.places = info.id;
		readahead_start(dataset, blob, &source, 0, blob->bytes);
		blob_unref(blob);
		bytes += info.size;
		files++;
	}
	object_unref(&together->catalog->object);
	free(together);
	node_job_end(dataset->node);
}

void reference_together(struct dataset *dataset, struct catalog_object *catalog,
			const struct blob *blob)
{
	struct node *node = dataset->node;
	struct together *together;

	if (!blob->url || blob->id.type != DIGEST_GIT_SHA1 ||
	    dataset->hub->is_offline ||
	    atomic_exchange(&catalog->is_together, true))
		return;
	together = calloc(1, sizeof(*together));
	if (!together)
		return;
	together->task.run = run;
	together->dataset = dataset;
	object_ref(&catalog->object);
	together->catalog = catalog;
	node_job_begin(node);
	work_add(node->verify, &together->task, WORK_BEHIND);
}
