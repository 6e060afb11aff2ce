/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_SOURCE_HUB_H
#define LARDER_SOURCE_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/catalog.h"

/*
 * The Hugging Face Hub: what to ask it for, what its answers mean, and a
 * repository's listing as a catalog of blobs by reference. No requests here.
 */
enum hub_kind { HUB_MODEL, HUB_DATASET, HUB_SPACE };

/* hf://[models/|datasets/|spaces/]ORG/NAME[@REVISION][/SUBDIR] */
struct hub_repo {
	enum hub_kind kind;
	char *id;	/* ORG/NAME, or the NAME of an old one */
	char *revision; /* "main" if none was given */
	char *subdir;	/* "" for all */
};
/* -EINVAL and why. */
int hub_parse(const char *text, struct hub_repo *ret, struct err *err);
void hub_repo_release(struct hub_repo *repo);
bool hub_is_source(const char *text); /* begins with hf:// */
bool hub_is_whole(const char *text);  /* hf:// itself */
/* On a catalog's root: the commit it lists, and "restricted" where the Hub
 * does not let everyone in. */
#define HUB_COMMIT_XATTR "user.hub.commit"
#define HUB_ACCESS_XATTR "user.hub.access"
#define HUB_RESTRICTED "restricted"
bool hub_revision_valid(const char *text);
/* hf/models/ORG/NAME: a valid dataset name. malloc */
char *hub_name(const struct hub_repo *repo);

/* Which repositories are let in: all, or with patterns in `allow` those that
 * one of them matches; never one that a pattern of `deny` matches, however its
 * case is written. A pattern without '/' is compared with ORG, one with two
 * with KIND/ORG/NAME (models, datasets, spaces), else with ORG/NAME. */
struct hub_rules {
	const char *const *allow, *const *deny;
	size_t allow_count, deny_count;
};
/* -EACCES and which option says so. */
int hub_rules_check(const struct hub_rules *rules, enum hub_kind kind,
		    const char *id, struct err *err);

/* What to ask for below the endpoint, escaped. malloc, NULL on ENOMEM. */
char *hub_info_target(const struct hub_repo *repo);
char *hub_tree_target(const struct hub_repo *repo, const char *commit);
char *hub_refs_target(const struct hub_repo *repo);
/* As it stands in catalogs: below the endpoint, not escaped. */
char *hub_file_path(const struct hub_repo *repo, const char *commit,
		    const char *path);

/* ---- answers. Bodies and header blocks come from outside: every function
 * here may be fed anything. */

/* The value of the first header line of that name; malloc, NULL: none. */
char *hub_header(const char *headers, const char *name);

struct hub_info {
	char *id;	  /* canonical: differs after a rename */
	char commit[41];  /* 40 hex digits */
	int64_t modified; /* seconds since 1970 */
	bool is_disabled;
	bool is_restricted; /* gated or private: not for everyone */
};
int hub_info_parse(const void *body, size_t len, struct hub_info *ret,
		   struct err *err);
void hub_info_release(struct hub_info *info);

/*
 * The branches and tags with a slash in their names, as text to keep (appended
 * to ret). -EBADMSG, -EFBIG. Whether such a text, or what came of it, has names
 * that begin with prefix.
 */
int hub_refs_parse(const void *body, size_t len, struct buf *ret,
		   struct err *err);
bool hub_refs_below(const void *text, size_t len, const char *prefix);

/* The rest of the listing: below the endpoint, wherever the Link points;
 * NULL when there is none. -EBADMSG for one that is no part of this listing. */
int hub_next_page(const char *headers, const struct hub_repo *repo,
		  const char *commit, char **ret, struct err *err);

/*
 * Why a request of ours was refused, in words that say what to do. status
 * and headers are the answer's. has_token: one was sent. Returns the negative
 * errno: -ENOENT, -EACCES, -EIO.
 */
int hub_refusal(unsigned status, const char *headers,
		const struct hub_repo *repo, bool has_token, struct err *err);
/* Milliseconds to wait after an answer that says RateLimit: 0 unless nothing
 * is left. */
uint32_t hub_rate_wait_ms(const char *headers);
/* Until when a signed location holds (seconds since 1970, a little less than
 * it says), asked for at `now`. */
int64_t hub_location_expires(const char *location, int64_t now);
/* Whether what resolve says of a file is what the listing said: size, digest,
 * commit. Headers that are not there are not held against it. */
int hub_resolved_check(const char *headers, const char *commit, uint64_t size,
		       const struct digest *content, struct err *err);

/* ---- listings */
struct hub_tree;
struct hub_tree *hub_tree_new(const struct hub_repo *repo);
void hub_tree_free(struct hub_tree *tree);
/* One page. -EBADMSG: no listing, or names that no tree has. */
int hub_tree_add(struct hub_tree *tree, const void *body, size_t len,
		 struct err *err);
struct hub_totals {
	struct digest catalog;
	uint64_t catalog_bytes, entry_count, total_bytes;
};
/* catalog: as catalog_writer_ops says. -ENOENT: an empty subtree. */
int hub_tree_finish(struct hub_tree *tree, const struct hub_info *info,
		    int (*catalog)(void *arg, const struct digest *digest,
				   const void *data, size_t len),
		    void *arg, struct hub_totals *ret, struct err *err);

#endif
