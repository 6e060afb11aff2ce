/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a test waits for. */
#include <config.h>

#include "fetch-waiting.h"

struct fetcher *fetcher;
struct origin *origin;

static void note_progress(struct fetch_request *request, const uint8_t *body,
			  size_t len)
{
	struct waiting *waiting = request->arg;

	if (waiting->body && (body != waiting->body || len < waiting->len))
		waiting->has_moved = true;
	waiting->body = body;
	waiting->len = len;
	waiting->calls++;
}

void note_done(struct fetch_request *request)
{
	struct waiting *waiting = request->arg;

	pthread_mutex_lock(&waiting->lock);
	waiting->is_done = true;
	pthread_cond_signal(&waiting->done);
	pthread_mutex_unlock(&waiting->lock);
}

void prepare(struct waiting *waiting, const char *path)
{
	*waiting = (struct waiting){
		.request =
			{
				.origin = origin,
				.path = path,
				.done = note_done,
				.progress = note_progress,
				.arg = waiting,
			},
	};
	pthread_mutex_init(&waiting->lock, NULL);
	pthread_cond_init(&waiting->done, NULL);
}

void prepare_range(struct waiting *waiting, const char *path, uint64_t offset,
		   uint64_t len)
{
	prepare(waiting, path);
	waiting->request.has_range = true;
	waiting->request.offset = offset;
	waiting->request.length = len;
}

void start(struct waiting *waiting)
{
	fetch_start(fetcher, &waiting->request);
}

void wait_for(struct waiting *waiting)
{
	pthread_mutex_lock(&waiting->lock);
	while (!waiting->is_done)
		pthread_cond_wait(&waiting->done, &waiting->lock);
	pthread_mutex_unlock(&waiting->lock);
	pthread_mutex_destroy(&waiting->lock);
	pthread_cond_destroy(&waiting->done);
}

void run(struct waiting *waiting)
{
	start(waiting);
	wait_for(waiting);
}
