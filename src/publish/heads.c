/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heads of a mirror: list, load, store.
 *
 * Names of datasets have no '@', so NAME@SERIAL below history/ can meet
 * neither a dataset nor a directory of one. A head is small and its history is
 * short (gc cuts it), so lists are read whole.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "publish/heads.h"
#include "publish/mirror-store.h"
#include "source/source.h"

#define HEAD_TEXT_LIMIT (2u * LIMIT_HEAD_BYTES)

char *history_path(const char *dataset, uint64_t serial, char *ret_path,
		   size_t size)
{
	snprintf(ret_path, size, "history/%s@%" PRIu64, dataset, serial);
	return ret_path;
}

static bool is_name_conflict(int r)
{
	return r == -ENOTDIR || r == -EISDIR || r == -EINVAL;
}

static int fail_conflict(const struct mirror *mirror, const char *path, int r,
			 struct err *err)
{
	return err_set(
		err, -r,
		"'%s/%s' cannot be: one dataset's name may not be a directory of another's",
		mirror->path, path);
}

static int load_path(const struct mirror *mirror, const char *path,
		     struct head *ret, struct digest *ret_text, struct err *err)
{
	struct err why = {0};
	struct buf text;
	int r;

	buf_init(&text, HEAD_TEXT_LIMIT);
	r = mirror->ops->read(mirror, path, &text, &why);
	if (is_name_conflict(r)) {
		fail_conflict(mirror, path, r, err);
	} else if (r < 0) {
		err_set(err, -r, "cannot read '%s/%s': %s", mirror->path, path,
			err_text(&why, r));
	} else {
		r = head_parse(text.data, text.len, ret, err);
		if (r < 0)
			err_prefix(err, r, "'%s/%s'", mirror->path, path);
	}
	if (r == 0 && ret_text)
		digest_sha256(text.data, text.len, ret_text);
	buf_release(&text);
	return r;
}

int head_load(const struct mirror *mirror, const char *dataset, const char *tag,
	      struct head *ret, struct digest *ret_text, struct err *err)
{
	char path[SOURCE_PATH_MAX];

	if (mirror->is_absent)
		return -ENOENT;
	mirror_head_path(dataset, tag, path);
	return load_path(mirror, path, ret, ret_text, err);
}

static int write_head(const struct mirror *mirror, const char *path,
		      const struct buf *text, struct err *err)
{
	struct err why = {0};
	int r = mirror->ops->write(mirror, path, text->data, text->len,
				   MIRROR_WRITE_SYNC, &why);

	if (is_name_conflict(r))
		return fail_conflict(mirror, path, r, err);
	if (r < 0)
		return err_set(err, -r, "cannot write '%s/%s': %s",
			       mirror->path, path, err_text(&why, r));
	return 0;
}

static int print_head(const struct head *head, const struct secret_key *key,
		      struct buf *ret_text, struct err *err)
{
	int r = head_print(head, ret_text);

	if (r == 0 && key)
		r = head_sign(ret_text, key);
	if (r < 0)
		err_set(err, -r, "cannot make the head of '%s': %s",
			head->dataset, strerror(-r));
	return r;
}

int head_store(const struct mirror *mirror, struct head *head,
	       const struct secret_key *key, struct err *err)
{
	char path[SOURCE_PATH_MAX];
	struct buf text;
	int r;

	buf_init(&text, LIMIT_HEAD_BYTES);
	r = print_head(head, key, &text, err);
	if (r == 0 && !head->tag[0])
		r = write_head(mirror,
			       history_path(head->dataset, head->serial, path,
					    sizeof(path)),
			       &text, err);
	if (r == 0)
		r = write_head(mirror,
			       mirror_head_path(head->dataset,
						head->tag[0] ? head->tag : NULL,
						path),
			       &text, err);
	if (r == 0)
		r = head_parse(text.data, text.len, head, err);
	buf_release(&text);
	return r;
}

int head_check_key(const struct mirror *mirror, const struct head *current,
		   const struct secret_key *key, struct err *err)
{
	char id[2 * sizeof(current->signatures[0].key_id) + 1];

	if (key || current->signature_count == 0)
		return 0;
	hex_encode(current->signatures[0].key_id,
		   sizeof(current->signatures[0].key_id), id);
	return err_set(
		err, EKEYREJECTED,
		"the head of '%s' in '%s' is signed by key %s: give -k KEY, or --force to leave it unsigned",
		current->dataset, mirror->path, id);
}

void stored_heads_release(struct stored_heads *heads)
{
	for (size_t i = 0; i < heads->list.count; i++)
		free(heads->list.items[i].path);
	vec_release(&heads->list);
}

struct listing {
	const struct mirror *mirror;
	const char *dataset;
	struct stored_heads *heads;
};

/* Does the head say what its name says? */
static int check_name(const struct stored_head *stored, struct err *err)
{
	const struct head *head = &stored->head;
	char path[SOURCE_PATH_MAX];

	if (stored->kind == HEAD_HISTORY)
		history_path(head->dataset, head->serial, path, sizeof(path));
	else
		mirror_head_path(head->dataset, head->tag[0] ? head->tag : NULL,
				 path);
	if (strcmp(path, stored->path) == 0)
		return 0;
	return err_set(err, EBADMSG, "'%s' holds the head of '%s'",
		       stored->path, path);
}

static bool is_of_dataset(const char *path, const char *dataset)
{
	const char *name = strchr(path, '/') + 1;
	size_t len = strlen(dataset);

	return strncmp(name, dataset, len) == 0 &&
	       (name[len] == '\0' || name[len] == '@');
}

static int add_head(void *arg, const char *path)
{
	struct listing *listing = arg;
	struct stored_head *stored;

	if (listing->dataset && !is_of_dataset(path, listing->dataset))
		return 0;
	stored = vec_push(&listing->heads->list);
	if (!stored)
		return -ENOMEM;
	stored->path = strdup(path);
	if (!stored->path)
		return -ENOMEM;
	if (starts_with(path, "history/"))
		stored->kind = HEAD_HISTORY;
	else
		stored->kind = strchr(path, '@') ? HEAD_TAGGED : HEAD_CURRENT;
	stored->result = load_path(listing->mirror, path, &stored->head,
				   &stored->text, &stored->err);
	if (stored->result == 0)
		stored->result = check_name(stored, &stored->err);
	else if (stored->result == -EINVAL)
		err_set(&stored->err, EINVAL, "'%s/%s' is not a regular file",
			listing->mirror->path, path);
	return 0;
}

static int compare_heads(const void *a, const void *b)
{
	const struct stored_head *x = a, *y = b;
	int r = strcmp(x->head.dataset, y->head.dataset);

	if (r != 0)
		return r;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->head.serial != y->head.serial)
		return x->head.serial < y->head.serial ? -1 : 1;
	return strcmp(x->path, y->path);
}

int heads_list(const struct mirror *mirror, const char *dataset,
	       struct stored_heads *ret, struct err *err)
{
	struct stored_heads heads = {0};
	struct listing listing = {
		.mirror = mirror,
		.dataset = dataset,
		.heads = &heads,
	};
	/* A dry run's mirror may not be there. */
	const bool is_there = !mirror->is_absent;
	struct err why = {0};
	int r = is_there ? mirror->ops->names(mirror, "heads", add_head,
					      &listing, &why) :
			   0;

	if (r == 0 && is_there)
		r = mirror->ops->names(mirror, "history", add_head, &listing,
				       &why);
	if (r < 0) {
		stored_heads_release(&heads);
		return err_set(err, -r, "cannot list the heads of '%s': %s",
			       mirror->path, err_text(&why, r));
	}
	if (heads.list.count > 0)
		qsort(heads.list.items, heads.list.count,
		      sizeof(heads.list.items[0]), compare_heads);
	*ret = heads;
	return 0;
}

int head_next_serial(const struct mirror *mirror, const char *dataset,
		     uint64_t current, uint64_t *ret, struct err *err)
{
	struct stored_heads heads;
	uint64_t newest = 0;
	int r = heads_list(mirror, dataset, &heads, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < heads.list.count; i++)
		if (heads.list.items[i].kind == HEAD_HISTORY &&
		    heads.list.items[i].head.serial > newest)
			newest = heads.list.items[i].head.serial;
	stored_heads_release(&heads);
	if (head_is_behind(current, newest))
		current = newest;
	if (current == UINT64_MAX)
		return err_set(err, ERANGE, "serials of '%s' are used up",
			       dataset);
	*ret = current + 1;
	return 0;
}
