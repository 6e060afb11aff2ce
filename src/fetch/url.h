/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_URL_H
#define LARDER_FETCH_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* What an origin's text means. All members are malloc or NULL. */
struct url_base {
	bool is_local;
	char *base; /* an absolute path, or a URL without credentials; no '/' at
		     * its end unless it is the root directory */
	char *user; /* from the URL, decoded */
	char *password;
};

bool url_is_s3(const char *text);

/* An absolute or relative path, file://, http:// or https://. -EINVAL for
 * what can never work, -ENOTSUP for schemes of later versions. s3:// is
 * s3_parse's. */
int url_base_parse(const char *text, struct url_base *ret, struct err *err);
void url_base_release(struct url_base *base);

/* No '.' or '..' part, no empty part, not absolute. "" is the origin itself. */
bool path_below_valid(const char *path);

/* base/path, the path with every byte outside A-Za-z0-9_.-~/ escaped
 * (is_local: as it is). malloc, NULL on ENOMEM. */
char *url_join(const struct url_base *base, const char *path);
/* base/path as they stand. malloc, NULL on ENOMEM. */
char *url_append(const struct url_base *base, const char *path);

/*
 * Where a redirect leads. Refused with -EPROTO: other schemes than http and
 * https, https to http, credentials inside, nonsense. *ret_same_origin:
 * scheme, host and port stay.
 */
int url_redirect(const char *from, const char *location, char **ret,
		 bool *ret_same_origin, struct err *err);

/* Without user, password, query and fragment, for people. malloc, NULL on
 * ENOMEM. Works on any text. */
char *url_redact(const char *url);

#endif
