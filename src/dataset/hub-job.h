/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_HUB_JOB_H
#define LARDER_DATASET_HUB_JOB_H

#include "dataset/catalog-wait.h"
#include "dataset/head.h"
#include "dataset/hub-listing.h"

/* For the Hub to answer when there is something to fall back on. */
#define FALLBACK_MS 3000u

/* Opening a repository: between hub-open.c and hub-ask.c. */
struct hub_job {
	struct task task; /* first */
	struct timer timer;
	struct catalog_wait catalog;
	struct node *node;
	struct dataset *dataset;
	struct hub *hub;
	struct flight *flight;
	struct tries tries;
	int mirror;
	bool is_refresh, has_cached, has_token;
	struct err trouble; /* why what was made before is shown again */
	struct head cached, offered;

	struct hub_repo repo;	    /* under its canonical name, once known */
	struct hub_info info;	    /* of the commit, once known */
	struct hub_listing listing; /* begun when info is known */
	struct waiter turn;	    /* while another job lists the commit */
	struct flight *listed;	    /* others wait for ours */
	struct fetch_request request;
	char *target, *authorization;
};

/* Goes on with that, on a thread that may check and write. */
void hub_job_next(struct hub_job *job,
		  void (*run)(struct task *task, struct worker *worker));
/* Asks what is not known yet: the commit, then page after page. */
void hub_job_ask(struct task *task, struct worker *worker);
/* From the first page. */
void hub_job_list(struct hub_job *job);
void hub_job_clear_request(struct hub_job *job);

/* What came of it: a head, whose catalog is waited for; or an error. What was
 * made before is shown again if need be. */
void hub_job_offer(struct hub_job *job, const struct head *head);
void hub_job_fail(struct hub_job *job, int r, struct err *err);
void hub_job_end(struct hub_job *job, int r, const struct err *err,
		 bool is_stale);

#endif
