/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How another process opens the dataset that lies at a path: the mount tells
 * its own user (and root) the options it was made with, as an attribute of the
 * dataset's directory. A configuration file would have to be the one that was
 * read then, and a mount's source in mountinfo is only a text. Since any
 * filesystem could carry such an attribute, it is believed only of a mount of
 * ours that belongs to the asking user.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "mount/internal.h"
#include "mount/op.h"

/* An attribute's value is at most 64 KiB for the kernel. */
#define OPTIONS_BYTES_MAX 65536u
#define FIRST_WORD "larder-options=1"

static int put(struct buf *buf, const char *name, const char *value)
{
	int r = value ? buf_printf(buf, "%s=%s", name, value) : 0;

	return r == 0 && value ? buf_append(buf, "", 1) : r;
}

static int put_number(struct buf *buf, const char *name, uint64_t value)
{
	int r = value ? buf_printf(buf, "%s=%" PRIu64, name, value) : 0;

	return r == 0 && value ? buf_append(buf, "", 1) : r;
}

static int put_node(struct buf *buf, const struct node_options *node)
{
	int r = put(buf, "cache", node->cache_dir);

	if (r == 0)
		r = put_number(buf, "size", node->cache_limit_bytes);
	if (r == 0)
		r = put_number(buf, "min-free", node->cache_min_free_bytes);
	if (r == 0)
		r = put(buf, "proxy", node->proxy);
	if (r == 0)
		r = put(buf, "ca", node->ca_file);
	if (r == 0)
		r = put(buf, "cert", node->cert_file);
	if (r == 0)
		r = put(buf, "cert-key", node->cert_key_file);
	if (r == 0)
		r = put_number(buf, "connections", node->connections);
	if (r == 0)
		r = put_number(buf, "total-connections",
			       node->total_connections);
	return r;
}

static int put_dataset(struct buf *buf, const struct dataset_options *dataset)
{
	int r = put(buf, "dataset", dataset->name);

	if (r == 0)
		r = put(buf, "name", dataset->remote_name);
	if (r == 0)
		r = put(buf, "tag", dataset->tag);
	for (size_t i = 0; i < dataset->mirror_count && r == 0; i++)
		r = put(buf, "mirror", dataset->mirrors[i]);
	for (size_t i = 0; i < dataset->key_count && r == 0; i++)
		r = put(buf, "key", dataset->key_files[i]);
	if (r == 0 && dataset->insecure)
		r = put(buf, "insecure", "yes");
	if (r == 0)
		r = dataset_origin_words(dataset, buf);
	if (r == 0 && dataset->hub)
		r = put(buf, "source", dataset->hub->source);
	if (r == 0 && dataset->hub)
		r = put(buf, "token-file", dataset->hub->token_file);
	return r;
}

int reopen_describe(const struct mount_options *options,
		    const struct dataset_options *dataset, struct buf *ret)
{
	int r = put(ret, "larder-options", "1");

	if (r == 0)
		r = put_node(ret, &options->node);
	return r == 0 ? put_dataset(ret, dataset) : r;
}

/* The mount of ours that the path is on, if it is the asking user's. */
static int check_mount(const char *path, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	struct mount_entry entry;
	size_t longest = 0;
	bool is_ours = false;
	uid_t owner = (uid_t)-1;
	char name[OWNER_NAME_MAX];
	int r = mountinfo_read(&text, err);

	if (r < 0)
		return r;
	for (char *cursor = text; mountinfo_next(&cursor, &entry);) {
		size_t len = strlen(entry.mountpoint);

		if (strncmp(path, entry.mountpoint, len) != 0 ||
		    (len > 1 && path[len] != '/' && path[len] != '\0') ||
		    len < longest)
			continue;
		longest = len;
		is_ours = mount_entry_is_ours(&entry);
		owner = entry.user_id;
	}
	if (!is_ours)
		return err_set(err, ENOTSUP, "'%s' is not on a larder mount",
			       path);
	if (owner != geteuid()) {
		mountpoint_owner_name(owner, name);
		return err_set(err, EPERM,
			       "'%s' is on a mount of %s; only %s can do that "
			       "there (plain ls, cat and du, and larder "
			       "prefetch, work for all)",
			       path, name, name);
	}
	return 0;
}

int mount_place(const char *path, struct mount_place *ret, struct err *err)
{
	char *answer = NULL;
	size_t len = 0, root = 0;
	struct err why = {0};
	int r = reopen_ask(path, &answer, &len, &root, &why);

	if (r == -ETIMEDOUT)
		return err_set(err, ETIMEDOUT,
			       "'%s' does not answer "
			       "(larder status says which mount)",
			       path);
	if (r < 0)
		return err_set(err, -r, "cannot look at '%s': %s", path,
			       err_text(&why, r));
	/* PATH NUL, then the options if it is in a dataset */
	size_t path_len = strlen(answer) + 1;

	r = check_mount(answer, err);
	if (r == 0 &&
	    (path_len == len || strcmp(answer + path_len, FIRST_WORD) != 0))
		r = err_set(err, EINVAL,
			    "'%s' is not in a dataset: name one "
			    "of the directories in it",
			    answer);
	if (r < 0) {
		free(answer);
		return r;
	}
	ret->memory = answer;
	ret->path = answer + root + (answer[root] == '/');
	ret->options = answer + path_len;
	ret->options_len = len - path_len;
	return 0;
}

void mount_place_release(struct mount_place *place)
{
	free(place->memory);
	*place = (struct mount_place){0};
}
