/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder keygen FILE: a key to sign heads with.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/mirror-command.h"

#define KEY_TEXT_LIMIT 4096u

static int write_key(const char *path, mode_t mode,
		     int (*print)(const void *key, struct buf *ret_text),
		     const void *key, struct err *err)
{
	struct buf text;
	int r;

	buf_init(&text, KEY_TEXT_LIMIT);
	r = print(key, &text);
	if (r == 0)
		r = file_write(AT_FDCWD, path, text.data, text.len, mode,
			       FILE_WRITE_SYNC | FILE_WRITE_EXCLUSIVE);
	if (text.data)
		explicit_bzero(text.data, text.len);
	buf_release(&text);
	if (r == -EEXIST)
		return err_set(
			err, EEXIST,
			"'%s' exists and is not overwritten; choose another FILE",
			path);
	if (r < 0)
		return err_set(err, -r, "cannot write '%s': %s", path,
			       strerror(-r));
	return 0;
}

static int print_secret(const void *key, struct buf *ret_text)
{
	return secret_key_print(key, ret_text);
}

static int print_public(const void *key, struct buf *ret_text)
{
	return public_key_print(key, ret_text);
}

/* The public half first: if it cannot be written there is no secret yet. */
static int write_pair(const char *path, const char *public_path,
		      const struct secret_key *key, struct err *err)
{
	int r = write_key(public_path, 0666, print_public, &key->public_key,
			  err);

	if (r < 0)
		return r;
	r = write_key(path, 0600, print_secret, key, err);
	if (r < 0)
		unlink(public_path);
	return r;
}

int cmd_keygen(int argc, char **argv)
{
	static const struct mirror_command command = {
		.name = "keygen",
		.usage = "larder keygen FILE",
		.summary =
			"Make a key pair: the secret key in FILE, the public key in FILE.pub.",
		.operands_min = 1,
		.operands_max = 1,
	};
	_cleanup_free_ char *public_path = NULL;
	struct secret_key key;
	struct options options;
	struct err err = {0};
	char id[2 * sizeof(key.public_key.id) + 1];
	const char *path;
	int r = mirror_command_begin(&options, &command, argc, argv);

	path = r == 0 ? options.operands.items[0] : NULL;
	options_release(&options);
	if (r)
		return r - 1;
	if (asprintf(&public_path, "%s.pub", path) < 0) {
		public_path = NULL;
		return cli_fail("keygen", -ENOMEM, NULL);
	}
	r = secret_key_new(&key);
	if (r == 0)
		r = write_pair(path, public_path, &key, &err);
	hex_encode(key.public_key.id, sizeof(key.public_key.id), id);
	secret_key_wipe(&key);
	if (r < 0)
		return cli_fail("keygen", r, &err);
	printf("key %s\n", id);
	printf("secret key in %s: give it to publish -k, and to nobody\n",
	       path);
	printf("public key in %s: give it to readers\n", public_path);
	return CLI_DONE;
}
