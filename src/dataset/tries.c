/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going over the mirrors.
 *
 * A round asks every mirror that is worth it once; then there is a pause.
 * What cannot heal (not there, refused, wrong bytes twice) takes a mirror
 * out for this job. A job that starts while every mirror is known to be dead
 * fails at once, or after one look whether that is still so: only the first
 * readers pay for a death. One failure is not death: a restarting server
 * costs its readers a pause, not an error.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "dataset/tries.h"

/* A server that is restarted is back by then; documented in larder(1). */
#define UNREACHABLE_GIVE_UP_MS 10000u
#define WRONG_MAX 2u

/* It answers, if not well: asking again about something else costs little. */
static bool is_alive(const struct origin_health *health)
{
	return health->last == FETCH_WRONG || health->last == FETCH_REFUSED;
}

struct candidates {
	unsigned count;
	int mirror[MIRRORS_MAX];
	struct origin_health health[MIRRORS_MAX];
	uint32_t tried[MIRRORS_MAX];
};

static void list_candidates(const struct tries *tries, struct candidates *c)
{
	c->count = 0;
	for (unsigned i = 0; i < tries->dataset->mirror_count; i++) {
		if (tries->mirrors[i].is_out)
			continue;
		c->mirror[c->count] = (int)i;
		c->tried[c->count] = tries->mirrors[i].tried;
		origin_health(tries->dataset->mirrors[i].origin,
			      &c->health[c->count]);
		c->count++;
	}
}

static bool all_dead(const struct candidates *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (!health_is_dead(&c->health[i]))
			return false;
	return true;
}

/* A little before a reader who came with it: the reason beats the deadline. */
static uint64_t budget_ms(const struct node *node)
{
	uint32_t margin = node->timeout_ms / 8;

	return node->timeout_ms - (margin < 500 ? margin : 500);
}

void tries_init(struct tries *tries, struct dataset *dataset, int only,
		enum fetch_priority priority)
{
	uint64_t now = now_ms();
	struct candidates c;

	*tries = (struct tries){
		.dataset = dataset,
		.priority = priority,
		.only = only,
		.started_ms = now,
		.give_up_ms = now + budget_ms(dataset->node),
	};
	for (unsigned i = 0; i < dataset->mirror_count; i++)
		tries->mirrors[i].is_out = only >= 0 && (int)i != only;
	list_candidates(tries, &c);
	tries->was_dead = all_dead(&c);
}

/* With a good mirror at hand nobody is sent to find out whether another is
 * back, which may cost a connect time-out: probes do that. */
static int choose_good(const struct tries *tries, const struct candidates *c)
{
	int best = -1;

	for (unsigned i = 0; i < c->count; i++)
		if (c->health[i].failures == 0 && c->tried[i] <= tries->round &&
		    (best < 0 || c->tried[i] < c->tried[best]))
			best = (int)i;
	return best;
}

/* Somebody who asks is told how each mirror is now. */
static int choose_unasked(const struct tries *tries, const struct candidates *c)
{
	for (unsigned i = 0; tries->asks_all && i < c->count; i++)
		if (c->tried[i] == 0)
			return (int)i;
	return -1;
}

static int choose(const struct tries *tries, const struct candidates *c,
		  uint64_t now)
{
	int chosen = choose_good(tries, c);

	if (chosen >= 0) {
		probe_mirrors(tries->dataset);
		return chosen;
	}
	chosen = choose_unasked(tries, c);
	if (chosen >= 0)
		return chosen;
	chosen = origins_choose(c->health, c->tried, c->count, now,
				tries->give_up_ms);
	if (chosen >= 0)
		return c->tried[chosen] <= tries->round ? chosen : -1;
	for (unsigned i = 0; i < c->count; i++)
		if (is_alive(&c->health[i]) && c->tried[i] <= tries->round)
			return (int)i;
	return -1;
}

bool tries_can_heal(const struct tries *tries)
{
	for (unsigned i = 0; i < tries->dataset->mirror_count; i++)
		if (!tries->mirrors[i].is_out)
			return true;
	return false;
}

/* Nothing but silence or closed doors so far. */
static bool is_unreachable(const struct tries *tries)
{
	for (unsigned i = 0; i < tries->dataset->mirror_count; i++)
		if (tries->mirrors[i].tried > 0 &&
		    tries->mirrors[i].class != FETCH_UNREACHABLE)
			return false;
	return true;
}

/* Those that were not asked say what they failed of last. */
static void borrow_reasons(struct tries *tries)
{
	struct dataset *dataset = tries->dataset;

	pthread_mutex_lock(&dataset->lock);
	for (unsigned i = 0; i < dataset->mirror_count; i++) {
		struct mirror_try *mirror = &tries->mirrors[i];

		if (tries->only >= 0 && (int)i != tries->only)
			continue;
		if (!mirror->text[0] && dataset->mirrors[i].last[0])
			snprintf(mirror->text, sizeof(mirror->text), "%s",
				 dataset->mirrors[i].last);
	}
	pthread_mutex_unlock(&dataset->lock);
}

int tries_errnum(const struct tries *tries)
{
	bool all_refused = true, all_slow = true, any = false;

	for (unsigned i = 0; i < tries->dataset->mirror_count; i++) {
		const struct mirror_try *mirror = &tries->mirrors[i];

		if (mirror->tried == 0)
			continue;
		any = true;
		all_refused &= mirror->class == FETCH_REFUSED;
		all_slow &= mirror->class == FETCH_SLOW;
	}
	if (any && all_refused)
		return EACCES;
	return any && all_slow ? ETIMEDOUT : EIO;
}

void tries_text(const struct tries *tries, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < tries->dataset->mirror_count; i++) {
		const struct mirror_try *mirror = &tries->mirrors[i];
		int n;

		if (!mirror->text[0])
			continue;
		n = snprintf(text + len, size - len, "%s%s: %s",
			     len ? ", " : "",
			     origin_name(tries->dataset->mirrors[i].origin),
			     mirror->text);
		if (n < 0 || len + (size_t)n >= size)
			return;
		len += (size_t)n;
	}
}

static int give_up(struct tries *tries, struct err *err)
{
	char text[sizeof(err->text)];

	borrow_reasons(tries);
	tries_text(tries, text, sizeof(text));
	return err_set(err, tries_errnum(tries), "%s",
		       text[0] ? text : "no mirror answers");
}

int tries_next(struct tries *tries, int *ret_mirror, uint32_t *ret_delay_ms,
	       struct err *err)
{
	uint64_t now = now_ms(), random = now_ns() / 1000;
	struct candidates c;
	int chosen;

	list_candidates(tries, &c);
	if (c.count == 0 || now >= tries->give_up_ms)
		return give_up(tries, err);
	if (tries->round > 0 && is_unreachable(tries) &&
	    now >= tries->started_ms + UNREACHABLE_GIVE_UP_MS)
		return give_up(tries, err);
	chosen = choose(tries, &c, now);
	if (chosen >= 0) {
		*ret_mirror = c.mirror[chosen];
		return 0;
	}
	if (tries->was_dead && all_dead(&c))
		return give_up(tries, err);
	*ret_delay_ms =
		retry_delay_ms(tries->round, tries->retry_after_ms, random);
	if (*ret_delay_ms > tries->give_up_ms - now)
		*ret_delay_ms = (uint32_t)(tries->give_up_ms - now);
	tries->round++;
	tries->retry_after_ms = 0;
	return -EAGAIN;
}

static bool has_other_good(const struct tries *tries, int mirror)
{
	for (unsigned i = 0; i < tries->dataset->mirror_count; i++) {
		struct origin_health health;

		if ((int)i == mirror || tries->mirrors[i].is_out)
			continue;
		origin_health(tries->dataset->mirrors[i].origin, &health);
		if (health.failures == 0)
			return true;
	}
	return false;
}

static uint32_t rate_of(uint64_t bytes, uint32_t ms)
{
	uint64_t rate = bytes * 1000 / (ms > 0 ? ms : 1);

	return rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX;
}

/* Of a job about one mirror the caller has others. */
static unsigned list_others(struct tries *tries, int mirror)
{
	unsigned count = 0;

	for (unsigned i = 0; i < tries->dataset->mirror_count; i++)
		if ((int)i != mirror &&
		    (tries->only >= 0 || !tries->mirrors[i].is_out))
			tries->others[count++] =
				tries->dataset->mirrors[i].origin;
	return count;
}

static void look_for_others(struct fetch_request *request)
{
	const struct tries *tries =
		(const struct tries *)((const char *)request->others -
				       offsetof(struct tries, others));

	probe_mirrors(tries->dataset);
}

void tries_haste(struct tries *tries, int mirror, uint64_t bytes,
		 uint64_t chunk_bytes, struct fetch_request *request)
{
	uint32_t timeout_ms = tries->dataset->node->timeout_ms, left_ms = 1;
	uint64_t now = now_ms();
	uint32_t all_ms = timeout_ms / 2, chunk_ms = timeout_ms / 3;

	request->is_hasty = tries->mirrors[mirror].tried == 0;
	request->others = tries->others;
	request->other_count = list_others(tries, mirror);
	request->about_others = look_for_others;
	if (request->other_count == 0)
		return;
	if (!request->is_hasty) {
		if (tries->give_up_ms > now)
			left_ms = (uint32_t)(tries->give_up_ms - now);
		request->patience_ms = left_ms / 2 + 1;
		all_ms = chunk_ms = left_ms;
	}
	request->min_bytes_per_s = rate_of(bytes, all_ms);
	request->demand_bytes_per_s = rate_of(chunk_bytes, chunk_ms);
	if (bytes == 0)
		request->whole_within_ms = chunk_ms;
}

/* Wrong bytes may be one bad moment; callers ask twice before they note. */
static bool can_heal(struct mirror_try *try)
{
	if (try->class == FETCH_WRONG)
		return ++try->wrong < WRONG_MAX;
	return try->class == FETCH_CANCELED || retry_worth(try->class);
}

void tries_note(struct tries *tries, int mirror, enum fetch_class class,
		const char *text, uint32_t retry_after_ms)
{
	/* Haste alone says little, and where else would readers go. */
	if (class != FETCH_SLOW || tries->mirrors[mirror].tried > 0 ||
	    has_other_good(tries, mirror))
		mirror_note(tries->dataset, (unsigned)mirror, class,
			    text && text[0] ? text : fetch_class_name(class));
	tries_record(tries, mirror, class, text, retry_after_ms);
}

void tries_record(struct tries *tries, int mirror, enum fetch_class class,
		  const char *text, uint32_t retry_after_ms)
{
	struct mirror_try *try = &tries->mirrors[mirror];
	struct dataset *dataset = tries->dataset;

	try->class = class;
	if (class == FETCH_OK)
		return;
	try->tried++;
	if (!can_heal(try))
		try->is_out = true;
	snprintf(try->text, sizeof(try->text), "%s",
		 text && text[0] ? text : fetch_class_name(class));
	if (retry_after_ms > tries->retry_after_ms)
		tries->retry_after_ms = retry_after_ms;
	pthread_mutex_lock(&dataset->lock);
	static_assert(sizeof(dataset->mirrors[mirror].last) ==
			      sizeof(try->text),
		      "one size for both");
	memcpy(dataset->mirrors[mirror].last, try->text, sizeof(try->text));
	pthread_mutex_unlock(&dataset->lock);
}

void tries_progress(struct tries *tries)
{
	uint64_t now = now_ms();

	tries->round = 0;
	tries->started_ms = now;
	tries->give_up_ms = now + budget_ms(tries->dataset->node);
	for (unsigned i = 0; i < tries->dataset->mirror_count; i++)
		tries->mirrors[i].tried = 0;
}
