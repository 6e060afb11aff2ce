/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publish from beginning to end.
 *
 * The order on the mirror is packs, objects, places, then one sync, then the
 * head: whatever happens in between, readers see the old head, and
 * what was written is found by the next run. What can be refused is refused
 * before hours of work: names, the key, the lease come first.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "publish/chunk-index.h"
#include "publish/heads.h"
#include "publish/lease.h"
#include "publish/mirror-store.h"
#include "publish/next-head.h"
#include "publish/pack-tables.h"
#include "publish/parallel.h"
#include "publish/pipeline.h"
#include "publish/placing.h"
#include "publish/publish.h"
#include "publish/salvage.h"
#include "publish/ticker.h"
#include "publish/tree-writer.h"
#include "source/source.h"

#define DEFAULT_LEVEL 3
#define THREADS_MAX 256u

#define COUNT_AFTER_MS 1000u
#define COUNT_STEP_MS 20u

struct run {
	const struct publish_options *options;
	const struct catalog_params *params;
	unsigned int threads;
	uint64_t start_ms;
	struct mirror *mirror;
	struct lease *lease;
	struct ticker *ticker;
	struct pack_tables *tables;
	struct chunk_index *index;
	struct placing *placing;
	struct pipeline_counts counts;
	int root_fd;
	struct head_before before;

	pthread_t counter; /* counts the tree's bytes for the progress */
	bool has_counter;
	_Atomic uint64_t tree_bytes; /* 0: not known yet */
	atomic_bool is_over;
	_Atomic(const char *) stage;

	pthread_mutex_t mutex;	   /* guards what follows */
	struct pipeline *pipeline; /* while it runs */
	int stop_result;
	struct err stop_err;
};

/* Stopping. */

static void stop_run(void *arg, int result, const struct err *err)
{
	struct run *run = arg;

	scoped_lock(&run->mutex);
	if (run->stop_result == 0) {
		run->stop_result = result;
		run->stop_err = *err;
	}
	if (run->pipeline)
		pipeline_fail(run->pipeline, result, err);
}

static int check_stopped(struct run *run, struct err *err)
{
	scoped_lock(&run->mutex);

	if (run->stop_result < 0 && err)
		*err = run->stop_err;
	return run->stop_result;
}

/* Progress. */

static void show_progress(void *arg)
{
	struct run *run = arg;
	const struct publish_progress progress = {
		.total_bytes = run->tree_bytes,
		.done_bytes = run->counts.zero_bytes + run->counts.known_bytes +
			      run->counts.new_bytes,
		.zero_bytes = run->counts.zero_bytes,
		.known_bytes = run->counts.known_bytes,
		.new_bytes = run->counts.new_bytes,
		.stored_bytes = run->counts.stored_bytes,
		.elapsed_ms = now_ms() - run->start_ms,
		.stage = run->stage,
	};

	run->options->progress(run->options->progress_arg, &progress);
}

static int count_entry(void *arg, const struct walk_entry *entry,
		       struct err *err)
{
	struct run *run = arg;

	(void)entry;
	(void)err;
	return run->is_over ? -ECANCELED : 0;
}

static int count_leave(void *arg, struct err *err)
{
	return count_entry(arg, NULL, err);
}

static void fill_walk(const struct run *run, struct walk_options *ret)
{
	const struct publish_options *options = run->options;
	struct stat st;

	*ret = (struct walk_options){
		.excludes = options->excludes,
		.exclude_count = options->exclude_count,
	};
	if (run->mirror->fd >= 0 && fstat(run->mirror->fd, &st) == 0) {
		ret->has_forbidden = true;
		ret->forbidden_dev = st.st_dev;
		ret->forbidden_ino = st.st_ino;
	}
}

/* A short run is over before a total would be of use to anybody. */
static bool is_over_soon(struct run *run)
{
	for (unsigned int ms = 0; ms < COUNT_AFTER_MS && !run->is_over;
	     ms += COUNT_STEP_MS)
		usleep(COUNT_STEP_MS * 1000);
	return run->is_over;
}

static void *count_tree(void *arg)
{
	static const struct walk_ops ops = {
		.enter = count_entry,
		.leave = count_leave,
		.entry = count_entry,
	};
	struct run *run = arg;
	struct walk_options walk;
	struct walk_counts counts;

	if (is_over_soon(run))
		return NULL;
	fill_walk(run, &walk);
	if (walk_tree(run->root_fd, &walk, &ops, run, &counts, NULL) == 0)
		run->tree_bytes = counts.bytes;
	return NULL;
}

/* Beginning. */

static int check_options(const struct publish_options *options, struct err *err)
{
	if (!dataset_name_valid(options->name))
		return err_set(
			err, EINVAL,
			"'%s' cannot be a dataset's name: use letters, digits, '.', '_', '-', and '/' between parts",
			options->name);
	if (options->tag && !tag_name_valid(options->tag))
		return err_set(
			err, EINVAL,
			"'%s' cannot be a tag: use letters, digits, '.', '_' and '-'",
			options->tag);
	return 0;
}

/* A directory is open for each level of the tree. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_tree(struct run *run, struct err *err)
{
	const char *tree = run->options->tree;

	run->root_fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run->root_fd < 0)
		return err_set(err, errno, "cannot open '%s': %s", tree,
			       strerror(errno));
	return 0;
}

static int load_current(struct run *run, struct err *err)
{
	const struct publish_options *options = run->options;
	int r = head_load(run->mirror, options->name, NULL, &run->before.head,
			  &run->before.text, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	run->before.is_there = true;
	return options->is_forced ?
		       0 :
		       head_check_key(run->mirror, &run->before.head,
				      options->key, err);
}

static int open_mirror(struct run *run, struct err *err)
{
	const struct publish_options *options = run->options;
	int r = mirror_open(options->mirror, options->access,
			    options->is_dry_run ? MIRROR_OPEN_ABSENT_OK :
						  MIRROR_OPEN_CREATE,
			    &run->mirror, err);

	if (r == 0 && !options->is_dry_run)
		r = lease_take(run->mirror, "publish", &run->lease, err);
	return r == 0 ? load_current(run, err) : r;
}

static int start_ticker(struct run *run, struct err *err)
{
	const struct ticker_options options = {
		.lease = run->lease,
		.stop = run->options->stop,
		.tick = run->options->progress ? show_progress : NULL,
		.fail = stop_run,
		.arg = run,
	};

	if (run->options->progress)
		run->has_counter = pthread_create(&run->counter, NULL,
						  count_tree, run) == 0;
	return ticker_start(&options, &run->ticker, err);
}

static int load_index(struct run *run, struct publish_result *result,
		      struct err *err)
{
	struct stored_files packs = {0};
	int r = 0;

	run->stage = "reading the mirror's packs";
	run->tables = pack_tables_new(run->mirror);
	run->index = run->tables ? chunk_index_new(run->tables) : NULL;
	run->placing = placing_new();
	if (!run->index || !run->placing)
		return err_set(err, ENOMEM, "out of memory");
	if (run->lease)
		r = salvage_packs(run->mirror, run->threads,
				  &result->salvaged_bytes, err);
	if (r == 0)
		r = mirror_list(run->mirror, "packs", &packs, err);
	if (r == 0)
		r = chunk_index_load(run->index, run->mirror, &packs,
				     run->threads, &result->damaged_packs, err);
	stored_files_release(&packs);
	return r;
}

/* The work. */

static int start_pipeline(struct run *run, struct err *err)
{
	const struct pipeline_options options = {
		.mirror = run->mirror,
		.tables = run->tables,
		.index = run->index,
		.placing = run->placing,
		.params = run->params,
		.counts = &run->counts,
		.root_fd = run->root_fd,
		.level = run->options->level ? run->options->level :
					       DEFAULT_LEVEL,
		.threads = run->threads,
		.is_dry_run = run->options->is_dry_run,
	};
	struct pipeline *pipeline;
	int r = pipeline_start(&options, &pipeline, err);

	if (r < 0)
		return r;
	scoped_lock(&run->mutex);
	run->pipeline = pipeline;
	if (run->stop_result < 0)
		pipeline_fail(pipeline, run->stop_result, &run->stop_err);
	return 0;
}

static int finish_pipeline(struct run *run, struct err *err)
{
	struct pipeline *pipeline;

	pthread_mutex_lock(&run->mutex);
	pipeline = steal_ptr(run->pipeline);
	pthread_mutex_unlock(&run->mutex);
	return pipeline_finish(pipeline, err);
}

static int write_tree(struct run *run, struct walk_counts *counts,
		      struct snapshot_totals *totals, struct err *err)
{
	const struct publish_options *options = run->options;
	struct walk_options walk;
	struct err late = {0};
	int r = start_pipeline(run, err), late_r;
	const struct tree_options tree = {
		.mirror = run->mirror,
		.placing = run->placing,
		.pipeline = run->pipeline,
		.params = run->params,
		.counts = &run->counts,
		.root_fd = run->root_fd,
		.want_owner = options->want_owner,
		.want_file_digests = options->want_file_digests,
		.is_dry_run = options->is_dry_run,
	};

	if (r < 0)
		return r;
	run->stage = "reading";
	fill_walk(run, &walk);
	walk.want_xattrs = true;
	r = tree_write(&tree, &walk, counts, totals, err);
	run->stage = "closing packs";
	late_r = finish_pipeline(run, &late);
	/* The pipeline keeps the first failure, whoever met it. */
	if (late_r < 0 && err)
		*err = late;
	return late_r < 0 ? late_r : r;
}

static int write_places(struct run *run, struct err *err)
{
	uint64_t stored;
	int r;

	if (run->options->is_dry_run)
		return 0;
	run->stage = "writing places";
	r = placing_write(run->placing, run->mirror, run->tables, run->index,
			  run->threads, &stored, err);
	if (r < 0)
		return r;
	run->counts.object_bytes += stored;
	run->stage = "syncing";
	return mirror_sync(run->mirror, err);
}

/* The head. */

static int write_heads(struct run *run, const struct snapshot_totals *totals,
		       struct publish_result *result, struct err *err)
{
	const struct publish_options *options = run->options;
	const struct head_before *before = &run->before;
	struct mirror *mirror = run->mirror;
	bool is_needed;
	int r = next_head_make(mirror, options, before, totals, &result->head,
			       err);

	if (r < 0)
		return r;
	is_needed = next_head_is_needed(options, before, &result->head);
	result->is_unchanged = !is_needed;
	if (!is_needed)
		result->head = before->head;
	result->is_other_key = next_head_has_other_key(options, before);
	if (options->is_dry_run)
		return 0;
	run->stage = "writing the head";
	if (options->tag)
		r = next_head_check_tag(mirror, options, &result->head, err);
	if (r == 0)
		r = check_stopped(run, err);
	if (r == 0)
		r = lease_renew(run->lease, err);
	if (r == 0 && is_needed)
		r = head_before_keep(mirror, options->name, before, err);
	if (r == 0 && is_needed)
		r = head_store(mirror, &result->head, options->key, err);
	if (r == 0 && options->tag)
		r = next_head_write_tag(mirror, options, &result->head, err);
	return r;
}

/* The whole. */

static void fill_result(const struct run *run, const struct walk_counts *counts,
			struct publish_result *ret)
{
	ret->files = counts->files;
	ret->directories = counts->directories;
	ret->symlinks = counts->symlinks;
	ret->skipped = counts->skipped;
	ret->excluded = counts->excluded;
	ret->zero_bytes = run->counts.zero_bytes;
	ret->known_bytes = run->counts.known_bytes;
	ret->new_bytes = run->counts.new_bytes;
	ret->stored_bytes = run->counts.stored_bytes;
	ret->new_chunks = run->counts.new_chunks;
	ret->known_chunks = run->counts.known_chunks;
	ret->object_bytes = run->counts.object_bytes;
	ret->elapsed_ms = now_ms() - run->start_ms;
}

/* Who took over the lease may have taken files away: say the cause. */
static int explain_failure(struct run *run, int r, struct err *err)
{
	struct err lost;

	if (!run->lease || lease_renew(run->lease, &lost) != -ESTALE)
		return r;
	if (err)
		*err = lost;
	return -ESTALE;
}

static int run_all(struct run *run, struct publish_result *result,
		   struct err *err)
{
	struct snapshot_totals totals = {0};
	struct walk_counts counts = {0};
	int r = check_options(run->options, err);

	if (r == 0)
		r = open_tree(run, err);
	if (r == 0)
		r = open_mirror(run, err);
	if (r == 0)
		r = start_ticker(run, err);
	if (r == 0)
		r = load_index(run, result, err);
	if (r == 0)
		r = check_stopped(run, err);
	if (r == 0)
		r = write_tree(run, &counts, &totals, err);
	if (r == 0)
		r = write_places(run, err);
	if (r == 0)
		r = write_heads(run, &totals, result, err);
	if (r == 0)
		fill_result(run, &counts, result);
	else
		r = explain_failure(run, r, err);
	return r;
}

static void run_release(struct run *run)
{
	run->is_over = true;
	if (run->has_counter)
		pthread_join(run->counter, NULL);
	ticker_stop(run->ticker);
	lease_release(run->lease);
	placing_free(run->placing);
	chunk_index_free(run->index);
	pack_tables_free(run->tables);
	mirror_close(run->mirror);
	if (run->root_fd >= 0)
		close(run->root_fd);
	pthread_mutex_destroy(&run->mutex);
}

int publish_run(const struct publish_options *options,
		struct publish_result *ret, struct err *err)
{
	struct publish_result result = {0};
	struct run run = {
		.options = options,
		.params = options->params ? options->params :
					    &catalog_params_defaults,
		.threads =
			options->threads ? options->threads : processor_count(),
		.start_ms = now_ms(),
		.root_fd = -1,
		.stage = "starting",
		.mutex = PTHREAD_MUTEX_INITIALIZER,
	};
	struct catalog_params params = *run.params;
	int r;

	params.has_file_digests = options->want_file_digests;
	run.params = &params;
	if (run.threads > THREADS_MAX)
		run.threads = THREADS_MAX;
	raise_descriptor_limit();
	r = run_all(&run, &result, err);
	run_release(&run);
	if (r == 0)
		*ret = result;
	return r;
}

int publish_default_name(const char *tree,
			 char ret_name[LIMIT_DATASET_NAME_BYTES + 1],
			 struct err *err)
{
	_cleanup_free_ char *path = realpath(tree, NULL);
	const char *name;

	if (!path)
		return err_set(err, errno, "cannot open '%s': %s", tree,
			       strerror(errno));
	name = strrchr(path, '/') + 1;
	if (!dataset_name_valid(name))
		return err_set(
			err, EINVAL,
			"'%s' cannot be a dataset's name: give one with -n NAME",
			name);
	snprintf(ret_name, LIMIT_DATASET_NAME_BYTES + 1, "%s", name);
	return 0;
}
