/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_HUB_LISTING_H
#define LARDER_DATASET_HUB_LISTING_H

#include "base/vec.h"
#include "dataset/hub.h"

/*
 * A repository's listing while it comes, page after page, and what becomes of
 * it: catalogs in the cache. Zero it; hub_listing_release is fine for that.
 */
struct hub_listing {
	struct hub_tree *tree;
	char *page;	     /* the next page's target; NULL: the first */
	VEC(uint64_t) pages; /* hashes of those that were asked for */
};

void hub_listing_release(struct hub_listing *listing);
/* repo lives as long as the listing. */
int hub_listing_begin(struct hub_listing *listing, const struct hub_repo *repo);
/* What to ask for next; malloc, NULL on ENOMEM. */
char *hub_listing_target(const struct hub_listing *listing,
			 const struct hub_repo *repo, const char *commit);
/* The answer to `target`. 1: it was the last page. */
int hub_listing_take(struct hub_listing *listing, const struct hub_repo *repo,
		     const char *commit, const char *target,
		     const struct fetch_request *request, struct err *err);
/* codec: the caller's, or NULL. */
int hub_listing_finish(struct hub_listing *listing, struct dataset *dataset,
		       const struct hub_info *info, struct codec *codec,
		       struct hub_totals *ret, struct err *err);

#endif
