/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_VIEWS_H
#define LARDER_MOUNT_VIEWS_H

#include "format/digest.h"
#include "mount/op.h"

/*
 * The Hugging Face Hub as directories (views.c), whose repositories are opened
 * when somebody looks for them:
 *
 *     models/ORG/NAME[@REVISION]  datasets/...  spaces/...
 *     hub/models--ORG--NAME/...   the layout of huggingface_hub's cache
 *                                 (view-hub.c, links.c)
 *
 * A repository at a revision is one dataset in whatever view it is seen, and
 * its files have one inode number in all of them.
 */
struct view_ops {
	/* The entry of op->name in dir. 0; DATASET_PARKED; -ENOENT, to be
	 * remembered for ret->entry_timeout; or another negative errno. */
	int (*lookup)(struct op *op, struct tree_dir *dir,
		      struct fuse_entry_param *ret, struct err *err);
	/* NULL: the names are the children of dir. Else the name at position
	 * *index or the next one that there is (then *index is its position);
	 * false: that was all. */
	bool (*nth)(const struct tree_dir *dir, uint64_t *index, char *ret_name,
		    uint64_t *ret_ino);
};

struct mount_dataset;

/* The views of a source hf:// below its path. -EEXIST as tree_add. */
int views_add(struct fs *fs, const struct mount_dataset *wanted,
	      struct err *err);
/* The options of the section of this path whose views are there, or NULL. */
const struct dataset_options *views_find(struct fs *fs, const char *path);
/* Before the tree and the node are closed; and after both. */
void views_close(struct fs *fs);
void views_free(struct fs *fs);

/* ---- between the files that make them */

enum view_kind { VIEW_MODEL, VIEW_DATASET, VIEW_SPACE, VIEW_KINDS };
/* "models": the directory of that kind, and of SOURCE. */
const char *view_kind_word(enum view_kind kind);

struct view;
/*
 * The slot of "KIND/ID[@REVISION]", opened if need be. `op` holds the
 * repository from here on, one for each op. A repository that is not there or
 * may not be seen is remembered for a while: *ret_timeout, in seconds.
 */
struct wanted_repo {
	enum view_kind kind;
	const char *id;	      /* ORG/NAME, or the NAME of an old one */
	const char *revision; /* NULL: the main branch */
};
int view_open_repo(struct op *op, struct view *view,
		   const struct wanted_repo *wanted, struct slot **ret,
		   double *ret_timeout, struct err *err);

/* Whether a revision of this repository is open that begins with prefix. */
bool view_knows_below(struct view *view, enum view_kind kind, const char *id,
		      const char *prefix);

/* view-hub.c: what looks up hub/ (a directory whose view is the struct view)
 * and what its directories remember. */
extern const struct view_ops view_hub_ops;
struct hub_folder;
void hub_folders_free(struct hub_folder *folder);
struct hub_folder **view_folders(struct view *view);
pthread_mutex_t *view_lock(struct view *view);

/* ---- links.c: a slot that shows files as links to blobs/ETAG */

/* The name of a file's blob, without type; false: it is no file that the Hub
 * has bytes of. */
bool links_blob_name(const struct file_location *location,
		     const struct entry_attr *attr, struct digest *ret);
/* ret is filled already; a file's becomes its link's. Parks. */
int links_attr(struct op *op, const struct slot *slot,
	       const struct entry_attr *attr, struct stat *ret,
	       struct err *err);
/* malloc. Parks. */
int links_read(struct op *op, const struct target *target, char **ret,
	       struct err *err);

#endif
