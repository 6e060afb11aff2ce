/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_TRIES_H
#define LARDER_DATASET_TRIES_H

#include "dataset/node.h"

/*
 * How a job goes over a dataset's mirrors: which one next, whether a failure
 * can heal, when to give up, and what to say then. Belongs to one job.
 */
struct tries {
	struct dataset *dataset;
	enum fetch_priority priority;
	int only; /* the one mirror it is about, or -1 */
	uint64_t started_ms, give_up_ms;
	uint32_t round, retry_after_ms;
	bool was_dead; /* every mirror, when this began */
	bool asks_all; /* each once, however it was before */
	struct origin *others[MIRRORS_MAX]; /* of the request under way */
	struct mirror_try {
		uint32_t tried, wrong;
		bool is_out; /* cannot heal within this job */
		enum fetch_class class;
		char text[REASON_BYTES];
	} mirrors[MIRRORS_MAX];
};

void tries_init(struct tries *tries, struct dataset *dataset, int only,
		enum fetch_priority priority);

/*
 * 0 and a mirror to ask now; -EAGAIN and how long to wait before asking this
 * again; anything else: it is over, with the reason of every mirror in err.
 */
int tries_next(struct tries *tries, int *ret_mirror, uint32_t *ret_delay_ms,
	       struct err *err);
/*
 * How it is to be asked: how long silence is borne, and the least bytes a
 * second, while another mirror is good, be it from the middle of the request
 * on. The first time with haste, all of it in half of a reader's time and the
 * largest chunk, which readers wait for, in a third. After that what comes in
 * time is left alone: no silence for more than half of what is left, no pace
 * at which it would be late. Sizes of 0 are not known yet. tries must stay
 * where it is until the request is done.
 */
void tries_haste(struct tries *tries, int mirror, uint64_t bytes,
		 uint64_t chunk_bytes, struct fetch_request *request);
/* What came of asking it. note: also in the origin's health; record: not,
 * since whoever asked has. */
void tries_note(struct tries *tries, int mirror, enum fetch_class class,
		const char *text, uint32_t retry_after_ms);
void tries_record(struct tries *tries, int mirror, enum fetch_class class,
		  const char *text, uint32_t retry_after_ms);
/* Bytes have come: the next failure starts counting afresh. */
void tries_progress(struct tries *tries);
/* Whether asking again later can help: some mirror is not out. */
bool tries_can_heal(const struct tries *tries);
/* "mirror-a: HTTP 503, mirror-b: timed out" so far; "" if nothing failed. */
void tries_text(const struct tries *tries, char *text, size_t size);
/* The errno for that: EACCES when all refuse, ETIMEDOUT when all are silent,
 * else EIO. */
int tries_errnum(const struct tries *tries);

/*
 * Probes (probe.c). Ask mirrors that failed and whose back-off is over whether
 * they are back; and what came of a request, for the mirror's health and the
 * log.
 */
void probe_mirrors(struct dataset *dataset);
void mirror_note(struct dataset *dataset, unsigned mirror,
		 enum fetch_class class, const char *text);

#endif
