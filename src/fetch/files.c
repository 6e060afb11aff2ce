/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Origins that are directories. Threads read them, at most four for each, made
 * when there is work.
 *
 * A network disk that hangs (NFS with its server gone) holds a thread in the
 * kernel where nothing can end it. So a thread reads into a buffer of its own
 * and touches the request only between reads; when time is over the transfer
 * thread ends the request and leaves the thread behind. It keeps its slot, so
 * that a hung disk costs four threads, and never a thread of another origin.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/thread.h"
#include "fetch/internal.h"

/* Stays in the second-level cache: the copy to the body is nearly free. */
#define PIECE_BYTES (256u << 10)
/* Threads of all origins that are not stuck. */
#define FILE_THREADS_MAX 16

/* ---- threads */

static void *files_main(void *arg);

static void add_thread(struct fetcher *fetcher)
{
	pthread_t thread;

	if (fetcher->file_queued <= fetcher->file_idle ||
	    fetcher->file_threads >= FILE_THREADS_MAX ||
	    thread_start(&thread, 0, files_main, fetcher) < 0)
		return;
	pthread_detach(thread);
	fetcher->file_threads++;
	fetcher->references++;
}

void files_wake(struct origin *origin)
{
	if (origin->running < FILES_PER_ORIGIN)
		add_thread(origin->fetcher);
	pthread_cond_signal(&origin->fetcher->file_work);
}

void files_abandon(struct job *job)
{
	struct fetcher *fetcher = job->origin->fetcher;

	job->state = JOB_ABANDONED;
	job->holders++;
	job->origin->stuck++;
	if (job->origin->stuck >= FILES_PER_ORIGIN)
		look_by(fetcher, 0); /* nobody will come for the queued ones */
	fetcher->file_threads--;
	add_thread(fetcher); /* others may have waited for this one */
	if (fetcher->file_threads == 0)
		pthread_cond_broadcast(&fetcher->threads_gone);
}

/* Back from the kernel after all. Under the lock. */
static void unstick(struct job *job)
{
	job->origin->stuck--;
	job->origin->running--;
	job->origin->fetcher->file_threads++;
}

/* Under the lock. */
static struct job *next_job(struct fetcher *fetcher)
{
	struct job *best = NULL;

	for (int priority = 0; priority < FETCH_PRIORITIES; priority++)
		for (struct list *item = fetcher->origins.next;
		     item != &fetcher->origins; item = item->next) {
			struct origin *origin =
				list_item(item, struct origin, all);

			if (!origin->url.is_local ||
			    list_is_empty(&origin->queues[priority]))
				continue;
			best = origin_admit(origin, FILES_PER_ORIGIN, 0, 1);
			if (best)
				return best;
		}
	return NULL;
}

/* ---- reading one file */

struct reading {
	struct job *job;
	uint64_t offset, length;
	char *path;
	enum fetch_class class;
	bool is_misnamed;
	struct err err;
};

static int fail(struct reading *reading, enum fetch_class class,
		const char *text)
{
	reading->class = class;
	return err_set(&reading->err, EIO, "%s", text);
}

static enum fetch_class class_of_errno(int errnum)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
		return FETCH_ABSENT;
	case EACCES:
	case EPERM:
		return FETCH_REFUSED;
	case ENOMEM:
	case EMFILE:
	case ENFILE:
		return FETCH_LOCAL;
	case ETIMEDOUT:
		return FETCH_SLOW;
	case ELOOP:
	case ENAMETOOLONG:
	case ENXIO:
	case EISDIR:
	case EINVAL:
		return FETCH_WRONG;
	}
	return FETCH_UNREACHABLE;
}

static int fail_errno(struct reading *reading, int errnum)
{
	reading->class = class_of_errno(errnum);
	return err_set(&reading->err, EIO, "%s", strerrordesc_np(errnum));
}

static bool is_empty_directory(const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);
	struct dirent *entry = NULL;

	do
		entry = dir ? readdir(dir) : NULL;
	while (entry &&
	       (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
	return dir && !entry;
}

/* The last directory on the way is empty, as one is on which a file system is
 * still to be mounted. Else the path is wrong, not late. */
static bool may_be_mounted(const char *base)
{
	_cleanup_free_ char *path = strdup(base);
	struct stat st;
	char *slash;

	while (path && (slash = strrchr(path, '/')) && slash > path) {
		*slash = '\0';
		if (stat(path, &st) == 0)
			return is_empty_directory(path);
		if (errno != ENOENT)
			return errno != ENOTDIR;
	}
	return false;
}

/* No such file, or no such mirror: only the first is an answer. */
static int fail_absent(struct reading *reading, int errnum)
{
	const char *base = reading->job->origin->url.base;
	struct stat st;

	if (stat(base, &st) < 0) {
		fail_errno(reading, errno);
		if (reading->class != FETCH_ABSENT)
			return -EIO;
		reading->is_misnamed = !may_be_mounted(base);
		return fail(reading, FETCH_UNREACHABLE,
			    reading->is_misnamed ?
				    "no such directory" :
				    "the directory is not there (yet?)");
	}
	if (!S_ISDIR(st.st_mode)) {
		reading->is_misnamed = true;
		return fail(reading, FETCH_UNREACHABLE, "not a directory");
	}
	return fail_errno(reading, errnum);
}

static int open_file(struct reading *reading, struct stat *st)
{
	_cleanup_close_ int fd = -1;

	/* O_NONBLOCK: a FIFO must not hold us. */
	fd = open(reading->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return fail_absent(reading, errno);
	if (fd < 0 || fstat(fd, st) < 0)
		return fail_errno(reading, errno);
	if (!S_ISREG(st->st_mode))
		return fail(reading, FETCH_WRONG, "not a regular file");
	return steal_fd(&fd);
}

/* Without a range, the range is the whole file. */
static int check_size(struct reading *reading, uint64_t size)
{
	const struct asked *asked = &reading->job->asked;

	if (asked->expected_total && size != asked->expected_total)
		return fail(reading, FETCH_WRONG, "file of another size");
	if (asked->has_range) {
		if (reading->offset > size ||
		    reading->length > size - reading->offset)
			return fail(reading, FETCH_WRONG,
				    "file shorter than expected");
		return 0;
	}
	if (size > asked->limit_bytes)
		return fail(reading, FETCH_WRONG, "file larger than allowed");
	reading->offset = 0;
	reading->length = size;
	return 0;
}

/* From the kernel to the request; false: it is not ours any more. */
static bool enter(struct job *job)
{
	scoped_lock(&job->origin->fetcher->lock);

	if (job->state == JOB_ABANDONED)
		return false;
	job->state = JOB_CALLING;
	return true;
}

/* Back to the kernel. -ECANCELED: no, the request is to end. */
static int leave(struct reading *reading, size_t bytes)
{
	struct job *job = reading->job;
	struct fetcher *fetcher = job->origin->fetcher;
	uint64_t deadline_ms = job->deadline_ms;
	uint64_t now = now_ms();
	char text[64], seconds[SECONDS_MAX];

	if (deadline_ms && now >= deadline_ms) {
		snprintf(text, sizeof(text), "timed out after %s",
			 seconds_text(now - job->start_ms, seconds));
		return fail(reading, FETCH_SLOW, text);
	}
	scoped_lock(&fetcher->lock);
	if (job->is_canceled || fetcher->is_closing) {
		fail(reading, FETCH_CANCELED, "canceled");
		return -ECANCELED;
	}
	pace_bytes(&job->pace, bytes, now);
	job->state = JOB_RUNNING;
	return 0;
}

static void file_etag(const struct stat *st, char *ret, size_t size)
{
	snprintf(ret, size, "\"%llx-%llx-%llx.%lx\"",
		 (unsigned long long)st->st_ino,
		 (unsigned long long)st->st_size,
		 (unsigned long long)st->st_mtim.tv_sec,
		 (unsigned long)st->st_mtim.tv_nsec);
}

/* The answer's head; -EALREADY: nothing to read. */
static int begin_answer(struct reading *reading, const struct stat *st)
{
	struct job *job = reading->job;
	struct fetch_request *request = job->request;

	request->total = (uint64_t)st->st_size;
	file_etag(st, request->etag, sizeof(request->etag));
	if (job->if_none_match && !strcmp(job->if_none_match, request->etag)) {
		request->not_modified = true;
		return -EALREADY;
	}
	if (reading->length == 0)
		return -EALREADY;
	request->body = body_new(request->pool, reading->length);
	if (!request->body)
		return fail(reading, FETCH_LOCAL, "out of memory");
	return 0;
}

static int take_piece(struct reading *reading, const void *piece, size_t len)
{
	struct fetch_request *request = reading->job->request;

	if (request->body_len == 0)
		job_alive(reading->job);
	memcpy(request->body + request->body_len, piece, len);
	request->body_len += len;
	if (request->progress)
		request->progress(request, request->body, request->body_len);
	return request->body_len < reading->length ? 0 : -EALREADY;
}

/* Between pieces in JOB_CALLING, where it also ends; -ESTALE: abandoned. */
static int read_pieces(struct reading *reading, int fd, uint8_t *piece)
{
	uint64_t done = 0, want = 0;
	ssize_t n;
	int r;

	for (;;) {
		r = leave(reading, want);
		want = reading->length - done;
		if (want > PIECE_BYTES)
			want = PIECE_BYTES;
		if (r < 0)
			return r;
		n = pread_full(fd, piece, want, reading->offset + done);
		if (!enter(reading->job))
			return -ESTALE;
		if (n < 0)
			return fail_errno(reading, (int)-n);
		if ((uint64_t)n < want)
			return fail(reading, FETCH_WRONG,
				    "file shorter than expected");
		done += want;
		r = take_piece(reading, piece, want);
		if (r < 0)
			return r;
	}
}

/* Starts RUNNING and ends CALLING, or -ESTALE. */
static int read_file(struct reading *reading, uint8_t *piece)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	fd = open_file(reading, &st);
	if (!enter(reading->job))
		return -ESTALE;
	if (fd < 0)
		return fd;
	r = check_size(reading, (uint64_t)st.st_size);
	if (r == 0)
		r = begin_answer(reading, &st);
	if (r == 0)
		r = read_pieces(reading, fd, piece);
	if (r == -ESTALE)
		return r;
	return r == -EALREADY ? 0 : r;
}

static void run_job(struct job *job, uint8_t *piece)
{
	struct reading reading = {
		.job = job,
		.offset = job->asked.offset,
		.length = job->asked.length,
		.path = url_join(&job->origin->url, job->path),
	};
	int r;

	if (!reading.path || !piece) {
		r = enter(job) ? fail(&reading, FETCH_LOCAL, "out of memory") :
				 -ESTALE;
	} else {
		r = read_file(&reading, piece);
	}
	free(reading.path);
	if (r != -ESTALE) {
		job->request->is_misnamed = reading.is_misnamed;
		job_finish(job, r == 0 ? FETCH_OK : reading.class,
			   &reading.err);
		return;
	}
	pthread_mutex_lock(&job->origin->fetcher->lock);
	unstick(job);
	pthread_mutex_unlock(&job->origin->fetcher->lock);
	job_put(job);
}

/* Under the lock, which is dropped meanwhile. */
static void start_job(struct fetcher *fetcher, struct job *job, uint8_t *piece)
{
	uint64_t now = now_ms();

	pace_begin(&job->pace, now);
	if (look_by(fetcher, now + fetcher->silence_timeout_ms))
		fetcher_wake(fetcher);
	pthread_mutex_unlock(&fetcher->lock);
	run_job(job, piece);
	pthread_mutex_lock(&fetcher->lock);
}

static void *files_main(void *arg)
{
	struct fetcher *fetcher = arg;
	uint8_t *piece = malloc(PIECE_BYTES);
	struct job *job;

	pthread_mutex_lock(&fetcher->lock);
	for (;;) {
		job = next_job(fetcher);
		if (job) {
			start_job(fetcher, job, piece);
		} else if (fetcher->is_closing && fetcher->active == 0) {
			break;
		} else {
			fetcher->file_idle++;
			pthread_cond_wait(&fetcher->file_work, &fetcher->lock);
			fetcher->file_idle--;
		}
	}
	if (--fetcher->file_threads == 0)
		pthread_cond_broadcast(&fetcher->threads_gone);
	pthread_mutex_unlock(&fetcher->lock);
	free(piece);
	fetcher_unref(fetcher);
	return NULL;
}
