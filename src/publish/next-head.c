/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which head follows the one that is there: what is in it, whether it would say
 * anything new, what becomes of its tag. publish.c decides when it is written.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "publish/mirror-store.h"
#include "publish/next-head.h"
#include "source/source.h"

int head_before_keep(const struct mirror *mirror, const char *name,
		     const struct head_before *before, struct err *err)
{
	char path[SOURCE_PATH_MAX];
	struct err why = {0};
	struct buf text;
	int r;

	if (!before->is_there)
		return 0;
	buf_init(&text, LIMIT_HEAD_BYTES);
	r = mirror->ops->read(mirror, mirror_head_path(name, NULL, path), &text,
			      &why);
	if (r == 0)
		r = mirror->ops->write(mirror,
				       history_path(name, before->head.serial,
						    path, sizeof(path)),
				       text.data, text.len,
				       MIRROR_WRITE_SYNC | MIRROR_WRITE_NEW,
				       &why);
	buf_release(&text);
	if (r < 0 && r != -EEXIST)
		return err_set(err, -r, "cannot write '%s/%s': %s",
			       mirror->path, path, err_text(&why, r));
	return 0;
}

static bool is_signed_by(const struct head *head, const struct secret_key *key)
{
	for (uint32_t i = 0; i < head->signature_count; i++)
		if (memcmp(head->signatures[i].key_id, key->public_key.id,
			   sizeof(key->public_key.id)) == 0)
			return true;
	return false;
}

bool next_head_has_other_key(const struct publish_options *options,
			     const struct head_before *before)
{
	return before->is_there && options->key &&
	       before->head.signature_count > 0 &&
	       !is_signed_by(&before->head, options->key);
}

bool next_head_is_needed(const struct publish_options *options,
			 const struct head_before *before,
			 const struct head *head)
{
	/* One that expired would go on refusing new readers. */
	if (before->is_there && before->head.expires &&
	    before->head.expires <= head->time)
		return true;
	return !before->is_there || options->is_forced || options->expires_s ||
	       !digest_equal(&head->catalog, &before->head.catalog) ||
	       (options->key && !is_signed_by(&before->head, options->key)) ||
	       head->serial != before->head.serial + 1;
}

int next_head_make(const struct mirror *mirror,
		   const struct publish_options *options,
		   const struct head_before *before,
		   const struct snapshot_totals *totals, struct head *ret,
		   struct err *err)
{
	struct head head = {
		.catalog = totals->catalog,
		.catalog_bytes = totals->catalog_bytes,
		.entry_count = totals->entry_count,
		.total_bytes = totals->total_bytes,
		.time = wall_seconds(),
	};

	if (totals->catalog_bytes > LIMIT_CATALOG_BYTES)
		return err_set(err, EFBIG, "the root catalog is too large");
	snprintf(head.dataset, sizeof(head.dataset), "%s", options->name);
	if (options->expires_s)
		head.expires = head.time + (int64_t)options->expires_s;
	if (before->is_there)
		head.previous = before->text;
	*ret = head;
	return head_next_serial(mirror, options->name, before->head.serial,
				&ret->serial, err);
}

int next_head_check_tag(const struct mirror *mirror,
			const struct publish_options *options,
			const struct head *head, struct err *err)
{
	struct head tagged;
	int r = head_load(mirror, options->name, options->tag, &tagged, NULL,
			  err);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || options->is_forced ||
	    digest_equal(&tagged.catalog, &head->catalog))
		return r;
	return err_set(
		err, EEXIST,
		"tag '%s' is on serial %llu already: use --force to move it",
		options->tag, (unsigned long long)tagged.serial);
}

int next_head_write_tag(const struct mirror *mirror,
			const struct publish_options *options,
			const struct head *head, struct err *err)
{
	struct head tagged = *head;

	snprintf(tagged.tag, sizeof(tagged.tag), "%s", options->tag);
	tagged.expires = 0;
	tagged.previous = (struct digest){0};
	return head_store(mirror, &tagged, options->key, err);
}
