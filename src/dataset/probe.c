/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding out whether a mirror is back, behind: no reader and no readahead
 * is sent to one that failed while another is good, since it may cost a
 * connect time-out. Its marker is asked for instead, one request at a time,
 * when its back-off is over and somebody needs the dataset.
 *
 * Also here: the line in the log when no mirror of a dataset answers, and the
 * one when some does again. Datasets of the same mirrors share it.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "dataset/tries.h"
#include "source/source.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

#define MARKER_BYTES_MAX 4096u
#define PROBE_MS 10000u

struct probe {
	struct fetch_request request;
	struct dataset *dataset;
	unsigned mirror;
};

static void probe_done(struct fetch_request *request)
{
	struct probe *probe = request->arg;
	struct dataset *dataset = probe->dataset;

	mirror_note(dataset, probe->mirror, request->class, request->err.text);
	free(request->body);
	free(probe);
	node_job_end(dataset->node);
}

static void probe_start(struct dataset *dataset, unsigned mirror)
{
	struct probe *probe = calloc(1, sizeof(*probe));

	if (!probe)
		return;
	probe->dataset = dataset;
	probe->mirror = mirror;
	probe->request = (struct fetch_request){
		.origin = dataset->mirrors[mirror].origin,
		.path = MIRROR_MARKER,
		.limit_bytes = MARKER_BYTES_MAX,
		.priority = FETCH_READAHEAD,
		.deadline_ms = now_ms() + PROBE_MS,
		.no_cache = true,
		.done = probe_done,
		.arg = probe,
	};
	node_job_begin(dataset->node);
	if (!node_fetch(dataset->node, &probe->request)) {
		node_job_end(dataset->node);
		free(probe);
	}
}

void probe_mirrors(struct dataset *dataset)
{
	uint64_t now = now_ms();

	for (unsigned i = 0; i < dataset->mirror_count; i++) {
		struct origin_health health;

		origin_health(dataset->mirrors[i].origin, &health);
		if (health.failures > 0 && health.bad_until_ms <= now &&
		    health.probe_until_ms <= now)
			probe_start(dataset, i);
	}
}

/* ---- offline and back */

static bool no_mirror_answers(const struct dataset *dataset)
{
	for (unsigned i = 0; i < dataset->mirror_count; i++) {
		struct origin_health health;

		origin_health(dataset->mirrors[i].origin, &health);
		if (!health_is_dead(&health))
			return false;
	}
	return true;
}

/* Of all datasets with these mirrors; true: it is news to be told. */
static bool set_offline(struct dataset *changed, bool is_offline)
{
	struct node *node = changed->node;
	bool is_news;

	scoped_lock(&node->datasets_lock);
	is_news = node->tells_outages;
	for (struct dataset *dataset = node->datasets; dataset;
	     dataset = dataset->next)
		if (dataset->salt == changed->salt &&
		    atomic_exchange(&dataset->is_offline, is_offline) ==
			    is_offline)
			is_news = false;
	return is_news;
}

static void tell_offline(const struct dataset *dataset, unsigned mirror,
			 const char *reason)
{
	log_warning("offline: no mirror answers, only what is cached can be "
		    "read dataset=%s mirror=%s reason='%s'",
		    dataset->name, origin_name(dataset->mirrors[mirror].origin),
		    reason);
}

static void tell_known(struct dataset *dataset)
{
	char reason[REASON_BYTES];

	pthread_mutex_lock(&dataset->lock);
	memcpy(reason, dataset->mirrors[0].last, sizeof(reason));
	pthread_mutex_unlock(&dataset->lock);
	tell_offline(dataset, 0, reason);
}

static bool is_first_of_its_mirrors(const struct node *node,
				    const struct dataset *dataset)
{
	const struct dataset *first = node->datasets;

	while (first->salt != dataset->salt)
		first = first->next;
	return first == dataset;
}

void node_serves(struct node *node)
{
	scoped_lock(&node->datasets_lock);
	for (struct dataset *dataset = node->datasets; dataset;
	     dataset = dataset->next)
		if (atomic_load(&dataset->is_offline) &&
		    is_first_of_its_mirrors(node, dataset))
			tell_known(dataset);
	node->tells_outages = true;
}

void mirror_note(struct dataset *dataset, unsigned mirror,
		 enum fetch_class class, const char *text)
{
	struct origin *origin = dataset->mirrors[mirror].origin;

	if (class == FETCH_CANCELED || class == FETCH_LOCAL)
		return;
	origin_note(origin, class, now_ms());
	if (class == FETCH_UNREACHABLE || class == FETCH_SLOW) {
		if (!atomic_load(&dataset->is_offline) &&
		    no_mirror_answers(dataset) && set_offline(dataset, true))
			tell_offline(dataset, mirror, text);
	} else if (atomic_load(&dataset->is_offline) &&
		   set_offline(dataset, false)) {
		log_warning("online again dataset=%s mirror=%s", dataset->name,
			    origin_name(origin));
	}
}
