/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of mirrors in buckets, in the words of the configuration: for
 * another process that opens the same dataset. mount/, which passes it on, does
 * not know what an origin is.
 */
#include <config.h>

#include "base/buf.h"
#include "dataset/dataset.h"
#include "fetch/fetch.h"

static int put(struct buf *buf, const char *name, const char *value)
{
	int r = value ? buf_printf(buf, "%s=%s", name, value) : 0;

	return r == 0 && value ? buf_append(buf, "", 1) : r;
}

int dataset_origin_words(const struct dataset_options *options, struct buf *ret)
{
	static const char *const styles[] = {
		[S3_PATH_STYLE_AUTO] = NULL,
		[S3_PATH_STYLE_YES] = "yes",
		[S3_PATH_STYLE_NO] = "no",
	};
	const struct origin_options *origin = options->origin;
	int r = 0;

	if (!origin)
		return 0;
	r = put(ret, "s3-endpoint", origin->s3_endpoint);
	if (r == 0)
		r = put(ret, "s3-region", origin->s3_region);
	if (r == 0)
		r = put(ret, "s3-credentials", origin->s3_credentials);
	if (r == 0)
		r = put(ret, "s3-profile", origin->s3_profile);
	if (r == 0)
		r = put(ret, "s3-path-style", styles[origin->s3_path_style]);
	return r;
}
