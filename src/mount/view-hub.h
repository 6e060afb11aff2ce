/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_VIEW_HUB_H
#define LARDER_MOUNT_VIEW_HUB_H

#include "mount/views.h"

/* Between the files that make hub/: view-hub.c, view-commit.c, view-refs.c. */
#define COMMIT_LEN 40u
#define HEX "0123456789abcdef"

struct blob_name {
	struct digest digest;
	uint64_t number; /* of the first file with these bytes */
};

struct hub_commit {
	struct hub_commit *next;
	char text[COMMIT_LEN + 1];
	struct slot *plain; /* as models/ORG/NAME shows it */
	struct tree_dir *snapshot;
	struct blob_name *names; /* sorted by digest */
	size_t count;
	_Atomic(char *) tree; /* of trees/, once it was looked for */
};

struct hub_folder {
	struct hub_folder *next;
	struct view *view;
	enum view_kind kind;
	char *id;
	struct dataset *dataset; /* its main branch's */
	struct tree_dir *dir, *refs, *snapshots, *absent;
	struct tree_dir *nothing; /* the empty file of .no_exist */
	/* only added to, at its head, with the view's lock */
	_Atomic(struct hub_commit *) commits;
};

#define HUB_ID_MAX 200u /* two parts of 96 */
/* "models--ORG--NAME": the name of a folder; false: of none. */
bool hub_folder_parse(const char *name, enum view_kind *ret_kind,
		      char id[HUB_ID_MAX]);
/* The commit that this slot shows, its directories made at the first time.
 * Parks. */
int hub_commit_of(struct op *op, struct hub_folder *folder, struct slot *plain,
		  struct hub_commit **ret, struct err *err);
/* NULL: not known. */
struct hub_commit *hub_commit_find(struct hub_folder *folder,
				   const char *text);
void hub_commit_free(struct hub_commit *commit);
/* A revision of the folder's repository, opened if need be, and its commit.
 * NULL: the main branch. Parks; ret_timeout as of view_open_repo. */
int hub_open_revision(struct op *op, struct hub_folder *folder,
		      const char *revision, struct hub_commit **ret,
		      double *ret_timeout, struct err *err);
/* The file of a ref says this from now on; made if need be. NULL: no room. */
struct tree_dir *hub_ref_set(struct op *op, struct tree_dir *dir,
			     const char *name, const struct hub_commit *commit);

/* A file or directory in a directory of a folder, made if need be. NULL: no
 * room. */
struct tree_dir *hub_child(struct op *op, struct tree_dir *dir,
			   const char *name, const struct tree_leaf *leaf);

extern const struct view_ops hub_blobs_ops, hub_refs_ops, hub_trees_ops;

#endif
