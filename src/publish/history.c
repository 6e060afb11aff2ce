/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with heads alone: log, tag, rollback. No data moves, but each
 * takes the lease, so that serials never collide with a publish.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "publish/heads.h"
#include "publish/lease.h"
#include "publish/mirror-store.h"
#include "publish/publish.h"
#include "source/source.h"

DEFINE_CLEANUP(struct mirror *, mirror_close);
DEFINE_CLEANUP(struct lease *, lease_release);

/* A digest must be given this far at least to be told from a serial and from
 * its neighbours. */
#define DIGEST_PREFIX_MIN 8u

static enum publish_head_kind public_kind(enum head_kind kind)
{
	return kind == HEAD_CURRENT ? PUBLISH_CURRENT :
	       kind == HEAD_TAGGED  ? PUBLISH_TAGGED :
				      PUBLISH_HISTORY;
}

int publish_log(const char *where, const struct mirror_access *access,
		const char *name,
		int (*report)(void *arg, enum publish_head_kind kind,
			      const char *path, const struct head *head,
			      const char *err_text),
		void *arg, struct err *err)
{
	_cleanup_(mirror_close_p) struct mirror *mirror = NULL;
	struct stored_heads heads;
	int r = mirror_open(where, access, 0, &mirror, err);

	if (r == 0)
		r = heads_list(mirror, name, &heads, err);
	if (r < 0)
		return r;
	if (name && heads.list.count == 0)
		r = err_set(err, ENOENT, "mirror '%s' has no dataset '%s'",
			    mirror->path, name);
	for (size_t i = 0; i < heads.list.count && r == 0; i++) {
		const struct stored_head *stored = &heads.list.items[i];

		r = report(arg, public_kind(stored->kind), stored->path,
			   &stored->head,
			   stored->result < 0 ?
				   err_text(&stored->err, stored->result) :
				   NULL);
	}
	stored_heads_release(&heads);
	return r;
}

/* The current head; its absence is an error in words. */
static int load_current(const struct mirror *mirror, const char *name,
			struct head *ret, struct digest *ret_text,
			struct err *err)
{
	int r;

	if (!dataset_name_valid(name))
		return err_set(err, EINVAL, "'%s' cannot be a dataset's name",
			       name);
	r = head_load(mirror, name, NULL, ret, ret_text, err);
	if (r == -ENOENT)
		return err_set(err, ENOENT, "mirror '%s' has no dataset '%s'",
			       mirror->path, name);
	return r;
}

static int open_for_writing(const char *where,
			    const struct mirror_access *access,
			    const char *what, struct mirror **ret_mirror,
			    struct lease **ret_lease, struct err *err)
{
	int r = mirror_open(where, access, 0, ret_mirror, err);

	return r == 0 ? lease_take(*ret_mirror, what, ret_lease, err) : r;
}

static bool is_meant(const struct head *head, const char *which)
{
	char text[DIGEST_TEXT_MAX];
	uint64_t serial;

	digest_text(&head->catalog, text);
	if (parse_u64(which, &serial) == 0 && head->serial == serial)
		return true;
	if (starts_with(which, "sha256:"))
		return starts_with(text, which);
	return strlen(which) >= DIGEST_PREFIX_MIN &&
	       starts_with(text + strlen("sha256:"), which);
}

/* The newest head of the history (or tagged one) that is meant. */
static int find_head(const struct mirror *mirror, const char *name,
		     const char *which, struct head *ret, struct err *err)
{
	struct stored_heads heads;
	const struct head *found = NULL;
	int r = heads_list(mirror, name, &heads, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < heads.list.count; i++) {
		const struct stored_head *stored = &heads.list.items[i];

		if (stored->result < 0 || !is_meant(&stored->head, which))
			continue;
		if (found &&
		    !digest_equal(&found->catalog, &stored->head.catalog) &&
		    found->serial == stored->head.serial)
			continue;
		if (!found || stored->head.serial >= found->serial)
			found = &stored->head;
	}
	if (found)
		*ret = *found;
	else
		r = err_set(
			err, ENOENT,
			"no snapshot '%s' of '%s': larder log shows what there is",
			which, name);
	stored_heads_release(&heads);
	return r;
}

static bool has_catalog(const struct mirror *mirror, const struct head *head)
{
	char path[SOURCE_PATH_MAX];
	uint64_t size;
	int64_t mtime;

	return mirror->ops->stat(mirror,
				 mirror_object_path(&head->catalog, path),
				 &size, &mtime, NULL) != -ENOENT;
}

/* A signed dataset stays signed. */
static int check_key(const struct mirror *mirror, const struct head *current,
		     const struct secret_key *key, bool is_forced,
		     struct err *err)
{
	return is_forced ? 0 : head_check_key(mirror, current, key, err);
}

static int check_move(const struct mirror *mirror, const struct head *head,
		      const char *tag, bool is_forced, struct err *err)
{
	struct head tagged;
	int r = head_load(mirror, head->dataset, tag, &tagged, NULL, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || digest_equal(&tagged.catalog, &head->catalog))
		return r;
	if (!is_forced)
		return err_set(err, EEXIST,
			       "tag '%s' is on serial %" PRIu64
			       ": use --force to move it",
			       tag, tagged.serial);
	if (tagged.serial >= head->serial)
		return err_set(
			err, EINVAL,
			"tag '%s' is on serial %" PRIu64
			": readers do not follow it to an older one; use another tag",
			tag, tagged.serial);
	return 0;
}

int publish_tag(const char *where, const struct mirror_access *access,
		const char *name, const char *tag, uint64_t serial,
		const struct secret_key *key, bool is_forced, struct head *ret,
		struct err *err)
{
	_cleanup_(mirror_close_p) struct mirror *mirror = NULL;
	_cleanup_(lease_release_p) struct lease *lease = NULL;
	struct head current = {0}, head;
	char which[24];
	int r;

	if (!tag_name_valid(tag))
		return err_set(
			err, EINVAL,
			"'%s' cannot be a tag: use letters, digits, '.', '_' and '-'",
			tag);
	r = open_for_writing(where, access, "tag", &mirror, &lease, err);
	if (r == 0)
		r = load_current(mirror, name, &current, NULL, err);
	if (r == 0)
		r = check_key(mirror, &current, key, is_forced, err);
	head = current;
	if (r == 0 && serial) {
		snprintf(which, sizeof(which), "%" PRIu64, serial);
		r = find_head(mirror, name, which, &head, err);
	}
	if (r == 0)
		r = check_move(mirror, &head, tag, is_forced, err);
	if (r < 0)
		return r;
	snprintf(head.tag, sizeof(head.tag), "%s", tag);
	head.expires = 0;
	head.previous = (struct digest){0};
	r = head_store(mirror, &head, key, err);
	if (r == 0)
		*ret = head;
	return r;
}

int publish_untag(const char *where, const struct mirror_access *access,
		  const char *name, const char *tag, struct err *err)
{
	_cleanup_(mirror_close_p) struct mirror *mirror = NULL;
	_cleanup_(lease_release_p) struct lease *lease = NULL;
	char path[SOURCE_PATH_MAX];
	struct err why = {0};
	struct head head;
	int r;

	if (!dataset_name_valid(name) || !tag_name_valid(tag))
		return err_set(err, EINVAL, "'%s@%s' cannot be a tag", name,
			       tag);
	r = open_for_writing(where, access, "tag", &mirror, &lease, err);
	if (r < 0)
		return r;
	mirror_head_path(name, tag, path);
	r = head_load(mirror, name, tag, &head, NULL, err);
	if (r != -ENOENT)
		r = mirror->ops->remove(mirror, path, &why);
	if (r == -ENOENT)
		return err_set(err, ENOENT, "'%s' has no tag '%s'", name, tag);
	if (r < 0)
		return err_set(err, -r, "cannot remove '%s/%s': %s",
			       mirror->path, path, err_text(&why, r));
	return 0;
}

int publish_rollback(const char *where, const struct mirror_access *access,
		     const char *name, const char *which,
		     const struct secret_key *key, bool is_forced,
		     struct head *ret, struct err *err)
{
	_cleanup_(mirror_close_p) struct mirror *mirror = NULL;
	_cleanup_(lease_release_p) struct lease *lease = NULL;
	struct head current = {0}, head;
	struct digest previous;
	int r = open_for_writing(where, access, "rollback", &mirror, &lease,
				 err);

	if (r == 0)
		r = load_current(mirror, name, &current, &previous, err);
	if (r == 0)
		r = check_key(mirror, &current, key, is_forced, err);
	if (r == 0)
		r = find_head(mirror, name, which, &head, err);
	if (r < 0)
		return r;
	if (digest_equal(&head.catalog, &current.catalog))
		return err_set(
			err, EEXIST,
			"that is the current snapshot of '%s' (serial %" PRIu64
			")",
			name, current.serial);
	if (!has_catalog(mirror, &head))
		return err_set(
			err, ENOENT,
			"snapshot '%s' of '%s' is not on the mirror any more",
			which, name);
	r = head_next_serial(mirror, name, current.serial, &head.serial, err);
	if (r < 0)
		return r;
	head.tag[0] = '\0';
	head.time = wall_seconds();
	head.expires = 0;
	head.previous = previous;
	r = head_store(mirror, &head, key, err);
	if (r == 0)
		*ret = head;
	return r;
}
