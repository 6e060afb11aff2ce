/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door: fetchers and origins. Both are counted; an origin keeps its
 * fetcher's memory, not its threads, so that the two may be closed in any
 * order.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/thread.h"
#include "fetch/internal.h"
#include "fetch/spool.h"

#define CONNECT_TIMEOUT_MS 5000
#define SILENCE_TIMEOUT_MS 10000
/* A reader between two reads has not gone away. */
#define HOLD_MS 250
#define HOLD_MAX_MS 1000
#define MAX_CONNECTIONS 16
#define MAX_ALL_CONNECTIONS 64

/* ---- fetchers */

static void curl_init(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int copy_text(const char *text, char **ret)
{
	if (!text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static struct fetcher *fetcher_new(const struct fetcher_options *options)
{
	struct fetcher *fetcher = calloc(1, sizeof(*fetcher));

	if (!fetcher)
		return NULL;
	fetcher->connect_timeout_ms = options->connect_timeout_ms ?
					      options->connect_timeout_ms :
					      CONNECT_TIMEOUT_MS;
	fetcher->silence_timeout_ms = options->silence_timeout_ms ?
					      options->silence_timeout_ms :
					      SILENCE_TIMEOUT_MS;
	fetcher->hold_ms = options->hold_ms ? options->hold_ms : HOLD_MS;
	fetcher->hold_max_ms =
		options->hold_max_ms ? options->hold_max_ms : HOLD_MAX_MS;
	fetcher->max_connections = options->max_connections ?
					   options->max_connections :
					   MAX_CONNECTIONS;
	fetcher->max_all_connections = options->max_all_connections ?
					       options->max_all_connections :
					       MAX_ALL_CONNECTIONS;
	fetcher->references = 1;
	fetcher->next_look_ms = UINT64_MAX;
	list_init(&fetcher->origins);
	list_init(&fetcher->jobs);
	list_init(&fetcher->exchanges);
	list_init(&fetcher->idle_exchanges);
	pthread_mutex_init(&fetcher->lock, NULL);
	pthread_cond_init(&fetcher->file_work, NULL);
	pthread_cond_init(&fetcher->threads_gone, NULL);
	if (proxies_open(&fetcher->proxies, options->proxy) < 0 ||
	    copy_text(options->ca_file, &fetcher->ca_file) < 0 ||
	    copy_text(options->cert_file, &fetcher->cert_file) < 0 ||
	    copy_text(options->cert_key_file, &fetcher->cert_key_file) < 0 ||
	    copy_text(options->spool_dir, &fetcher->spool_dir) < 0) {
		fetcher_unref(fetcher);
		return NULL;
	}
	return fetcher;
}

/* Frees the memory once nobody is left; the threads are gone before. */
void fetcher_unref(struct fetcher *fetcher)
{
	bool is_last;

	pthread_mutex_lock(&fetcher->lock);
	is_last = --fetcher->references == 0;
	pthread_mutex_unlock(&fetcher->lock);
	if (!is_last)
		return;
	pthread_mutex_destroy(&fetcher->lock);
	pthread_cond_destroy(&fetcher->file_work);
	pthread_cond_destroy(&fetcher->threads_gone);
	proxies_release(&fetcher->proxies);
	free(fetcher->ca_file);
	free(fetcher->cert_file);
	free(fetcher->cert_key_file);
	free(fetcher->spool_dir);
	free(fetcher);
}

int fetcher_open(const struct fetcher_options *options, struct fetcher **ret,
		 struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static const struct fetcher_options defaults;
	struct fetcher *fetcher;
	int r;

	pthread_once(&once, curl_init);
	fetcher = fetcher_new(options ? options : &defaults);
	if (!fetcher)
		return err_set(err, ENOMEM, "out of memory");
	r = transfers_open(fetcher, err);
	if (r == 0) {
		r = thread_start(&fetcher->thread, 0, transfers_main, fetcher);
		if (r < 0)
			err_set(err, -r, "cannot start a thread");
	}
	if (r < 0) {
		transfers_release(fetcher);
		fetcher_unref(fetcher);
		return r;
	}
	*ret = fetcher;
	return 0;
}

void fetcher_wake(struct fetcher *fetcher)
{
	if (!fetcher->is_woken)
		curl_multi_wakeup(fetcher->multi);
	fetcher->is_woken = true;
}

void fetcher_close(struct fetcher *fetcher)
{
	if (!fetcher)
		return;
	pthread_mutex_lock(&fetcher->lock);
	fetcher->is_closing = true;
	look_by(fetcher, 0);
	fetcher_wake(fetcher);
	pthread_cond_broadcast(&fetcher->file_work);
	pthread_mutex_unlock(&fetcher->lock);
	pthread_join(fetcher->thread, NULL);

	pthread_mutex_lock(&fetcher->lock);
	pthread_cond_broadcast(&fetcher->file_work);
	while (fetcher->file_threads > 0)
		pthread_cond_wait(&fetcher->threads_gone, &fetcher->lock);
	pthread_mutex_unlock(&fetcher->lock);
	transfers_release(fetcher);
	fetcher_unref(fetcher);
}

/* ---- origins */

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static struct origin *origin_find(struct fetcher *fetcher,
				  const struct url_base *url,
				  const struct s3 *s3)
{
	struct list *item;

	for (item = fetcher->origins.next; item != &fetcher->origins;
	     item = item->next) {
		struct origin *origin = list_item(item, struct origin, all);

		if (origin->url.is_local == url->is_local &&
		    !strcmp(origin->url.base, url->base) &&
		    s3_equal(origin->s3, s3) &&
		    same_text(origin->url.user, url->user) &&
		    same_text(origin->url.password, url->password))
			return origin;
	}
	return NULL;
}

static void origin_free(struct origin *origin)
{
	spools_release(origin);
	url_base_release(&origin->url);
	s3_free(origin->s3);
	pthread_mutex_destroy(&origin->lock);
	free(origin->name);
	free(origin);
}

/* Takes over what url holds, and s3. text is what people know it by. */
static struct origin *origin_new(struct fetcher *fetcher, struct url_base *url,
				 struct s3 *s3, const char *text)
{
	struct origin *origin = calloc(1, sizeof(*origin));

	if (!origin) {
		url_base_release(url);
		s3_free(s3);
		return NULL;
	}
	origin->fetcher = fetcher;
	origin->url = *url;
	origin->s3 = s3;
	origin->references = 1;
	for (int i = 0; i < FETCH_PRIORITIES; i++)
		list_init(&origin->queues[i]);
	list_init(&origin->spools);
	pthread_mutex_init(&origin->lock, NULL);
	origin->name = s3 ? strdup(text) : url_redact(url->base);
	if (!origin->name) {
		origin_free(origin);
		return NULL;
	}
	return origin;
}

int origin_open(struct fetcher *fetcher, const char *url, struct origin **ret,
		struct err *err)
{
	return origin_open_with(fetcher, url, NULL, ret, err);
}

int origin_open_with(struct fetcher *fetcher, const char *url,
		     const struct origin_options *options, struct origin **ret,
		     struct err *err)
{
	struct url_base base;
	struct s3 *s3 = NULL;
	struct origin *origin;
	int r;

	if (url_is_s3(url))
		r = s3_parse(url, options, &base, &s3, err);
	else
		r = url_base_parse(url, &base, err);
	if (r < 0)
		return r;
	scoped_lock(&fetcher->lock);
	origin = origin_find(fetcher, &base, s3);
	if (origin) {
		origin->references++;
		url_base_release(&base);
		s3_free(s3);
	} else {
		origin = origin_new(fetcher, &base, s3, url);
		if (!origin)
			return err_set(err, ENOMEM, "out of memory");
		fetcher->references++;
		list_add(&fetcher->origins, &origin->all);
	}
	*ret = origin;
	return 0;
}

void origin_unref(struct origin *origin)
{
	struct fetcher *fetcher = origin->fetcher;
	bool is_last;

	pthread_mutex_lock(&fetcher->lock);
	is_last = --origin->references == 0;
	if (is_last)
		list_remove(&origin->all);
	pthread_mutex_unlock(&fetcher->lock);
	if (!is_last)
		return;
	origin_free(origin);
	fetcher_unref(fetcher);
}

void origin_close(struct origin *origin)
{
	if (origin)
		origin_unref(origin);
}

const char *origin_name(const struct origin *origin)
{
	return origin->name;
}

bool origin_is_local(const struct origin *origin)
{
	return origin->url.is_local;
}
