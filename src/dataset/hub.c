/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the requests to a Hub have in common: the token, its limits, its
 * refusals.
 *
 * A token goes into the Authorization header of requests to the endpoint and
 * nowhere else; fetch/ sees to it when redirects lead away.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "dataset/hub.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

#define TOKEN_BYTES_MAX 4096u

static int copy_text(const char *text, char **ret)
{
	if (!text || !text[0])
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static struct hub_rules rules_of(const struct hub_options *options)
{
	return (struct hub_rules){
		.allow = options->allow,
		.allow_count = options->allow_count,
		.deny = options->deny,
		.deny_count = options->deny_count,
	};
}

int dataset_hub_check(const struct hub_options *options, struct err *err)
{
	const struct hub_rules rules = rules_of(options);
	struct hub_repo repo;
	int r = hub_parse(options->source, &repo, err);

	if (r < 0)
		return r;
	r = hub_rules_check(&rules, repo.kind, repo.id, err);
	hub_repo_release(&repo);
	return r;
}

int hub_new(const struct hub_options *options, struct hub **ret,
	    struct err *err)
{
	struct hub *hub = calloc(1, sizeof(*hub));
	int r = -ENOMEM;

	if (hub) {
		pthread_mutex_init(&hub->lock, NULL);
		hub->is_offline = options->is_offline;
		hub->is_followed = options->is_followed;
		hub->rules = rules_of(options);
		r = hub_parse(options->source, &hub->repo, err);
		if (r == 0)
			r = hub_rules_check(&hub->rules, hub->repo.kind,
					    hub->repo.id, err);
		if (r == 0)
			r = copy_text(options->source, &hub->source);
		if (r == 0)
			r = copy_text(options->token, &hub->token);
		if (r == 0)
			r = copy_text(options->token_file, &hub->token_file);
	}
	if (r < 0) {
		hub_free(hub);
		return r;
	}
	*ret = hub;
	return 0;
}

void hub_free(struct hub *hub)
{
	if (!hub)
		return;
	for (size_t i = 0; i < hub->pinned_count; i++)
		object_unref(hub->pinned[i]);
	free(hub->pinned);
	buf_release(&hub->refs);
	hub_repo_release(&hub->repo);
	free(hub->source);
	free(hub->token);
	free(hub->token_file);
	pthread_mutex_destroy(&hub->lock);
	free(hub);
}

void hub_pin(struct hub *hub, struct object *object)
{
	struct object **grown;

	scoped_lock(&hub->lock);
	grown = reallocarray(hub->pinned, hub->pinned_count + 1,
			     sizeof(*grown));
	if (!grown)
		return;
	hub->pinned = grown;
	hub->pinned[hub->pinned_count++] = object_ref(object);
}

/* ---- the token */

/* Without blanks and line ends around it; "" is none. */
static char *bearer(const char *token, size_t len)
{
	char *text;

	while (len > 0 && strchr(" \t\r\n", token[0])) {
		token++;
		len--;
	}
	while (len > 0 && strchr(" \t\r\n", token[len - 1]))
		len--;
	if (len == 0 || asprintf(&text, "Bearer %.*s", (int)len, token) < 0)
		return NULL;
	return text;
}

char *hub_authorization(struct hub *hub)
{
	struct buf text;
	char *value = NULL;
	int r;

	if (hub->token)
		return bearer(hub->token, strlen(hub->token));
	if (!hub->token_file)
		return NULL;
	buf_init(&text, TOKEN_BYTES_MAX);
	r = file_read(AT_FDCWD, hub->token_file, &text);
	if (r >= 0 && text.len > 0)
		value = bearer((const char *)text.data, text.len);
	else if (r < 0 && r != -ENOENT)
		log_limited(60000, log_warning("cannot read token file '%s': "
					       "%s",
					       hub->token_file, strerror(-r)));
	buf_release(&text);
	return value;
}

/* ---- limits */

void hub_pause(struct node *node, uint32_t ms)
{
	uint64_t until = now_ms() + ms;

	if (until > atomic_load(&node->hub_pause_until_ms))
		atomic_store(&node->hub_pause_until_ms, until);
}

uint32_t hub_paused_ms(struct node *node)
{
	uint64_t until = atomic_load(&node->hub_pause_until_ms);
	uint64_t now = now_ms();

	return until > now ? (uint32_t)(until - now) : 0;
}

int hub_pause_error(uint32_t ms, int errnum, struct err *err)
{
	return err_set(err, errnum,
		       "the Hub's limit of requests is used up, again in %u s",
		       (ms + 999) / 1000);
}

static enum fetch_class limited(struct dataset *dataset,
				const struct fetch_request *request,
				struct err *err, int *ret)
{
	uint32_t wait = hub_rate_wait_ms(request->headers);

	if (wait == 0)
		wait = request->retry_after_ms;
	if (wait > 0)
		hub_pause(dataset->node, wait);
	*ret = wait ? hub_pause_error(wait, EIO, err) :
		      err_set(err, EIO, "HTTP 429, too many requests");
	return FETCH_BUSY;
}

enum fetch_class hub_failure(struct dataset *dataset,
			     const struct hub_repo *repo,
			     const struct fetch_request *request,
			     bool has_token, struct err *ret_err, int *ret)
{
	unsigned status = request->result < 0 ? request->status : 0;

	switch (status) {
	case 429:
		return limited(dataset, request, ret_err, ret);
	case 401:
	case 403:
	case 404:
		*ret = hub_refusal(status, request->headers, repo, has_token,
				   ret_err);
		return status == 404 ? FETCH_ABSENT : FETCH_REFUSED;
	}
	*ret_err = request->err;
	*ret = request->result;
	return request->class;
}
