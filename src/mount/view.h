/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_VIEW_H
#define LARDER_MOUNT_VIEW_H

#include "mount/views.h"

/* Between views.c and view-repo.c. */
#define REPO_BUCKETS 1024u

/* A repository at a revision that somebody has looked for. */
struct repo {
	struct repo *next; /* in its bucket */
	struct view *view;
	char *source; /* hf://KIND/ID[@REVISION] */
	struct hub_options hub;
	struct dataset_options options;
	struct wanted_repo wanted; /* its texts are its own */
	/* guarded by the view's lock */
	struct dataset *dataset; /* NULL: never tried, or dropped */
	struct tree_dir *home;	 /* once open: KIND/ID[@REVISION] */
	unsigned users;
	int result; /* why it could not be opened, until then */
	struct err why;
	uint64_t until_ms;
};

struct view {
	struct view *next;
	struct fs *fs;
	const struct dataset_options *options; /* of its section */
	const char *path;
	struct tree_dir *kinds[VIEW_KINDS];
	pthread_mutex_t lock; /* guards all below; taken before the tree's */
	struct repo *buckets[REPO_BUCKETS];
	unsigned repo_count, owner_count;
	struct hub_folder *folders;
};


/* With the lock held: ORG below a kind's directory, made if need be; NULL: too
 * many. */
struct tree_dir *view_owner(struct view *view, enum view_kind kind,
			    const char *name);
/* Nobody uses the repositories any more. */
void view_drop_repos(struct view *view);
void view_free_repos(struct view *view);

#endif
