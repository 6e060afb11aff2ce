/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version of a file that nobody has a digest of while it is read. Without
 * it a file that is replaced on its server would be read half old, half new,
 * and only the digest of the whole would tell, when it is too late.
 *
 * An ETag means something at one place only: another host, or another path
 * there, may have its own for the same bytes. The query does not count, which
 * is a new signature each time. So what is known is forgotten where the
 * location of a file has changed.
 */
#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "dataset/version.h"
#include "format/digest.h"

struct version {
	pthread_mutex_t lock; /* guards the rest */
	uint64_t place;
	char etag[FETCH_ETAG_MAX]; /* "": not known */
};

struct version *version_new(void)
{
	struct version *version = calloc(1, sizeof(*version));

	if (version)
		pthread_mutex_init(&version->lock, NULL);
	return version;
}

void version_free(struct version *version)
{
	if (!version)
		return;
	pthread_mutex_destroy(&version->lock);
	free(version);
}

static uint64_t place_of(const struct fetch_request *request)
{
	const char *name = origin_name(request->origin);
	size_t len = request->is_escaped ? strcspn(request->path, "?") :
					   strlen(request->path);

	return checksum_xxh3(name, strlen(name)) ^
	       checksum_xxh3(request->path, len);
}

void version_known(struct version *version, const struct fetch_request *request,
		   char ret[FETCH_ETAG_MAX])
{
	scoped_lock(&version->lock);
	snprintf(ret, FETCH_ETAG_MAX, "%s",
		 version->place == place_of(request) ? version->etag : "");
}

bool version_is_same(struct version *version,
		     const struct fetch_request *request, const char *etag)
{
	uint64_t place = place_of(request);

	if (etag[0] != '"')
		return true;
	scoped_lock(&version->lock);
	if (version->etag[0] && version->place == place)
		return strcmp(version->etag, etag) == 0;
	version->place = place;
	snprintf(version->etag, sizeof(version->etag), "%s", etag);
	return true;
}
