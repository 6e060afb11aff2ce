/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs of origins: take apart, join, escape, redact, follow. Parsing and
 * resolving is libcurl's, so that what is checked here is what is later
 * connected to; two parsers that disagree are how checks are passed by.
 *
 * A base is kept as typed (it is already escaped); only the path below it is
 * escaped, byte by byte, because names of files are bytes and not text.
 */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/cleanup.h"
#include "fetch/url.h"

DEFINE_CLEANUP(CURLU *, curl_url_cleanup);

static void curl_text_free_p(char **text)
{
	curl_free(*text);
}

#define _cleanup_url_ _cleanup_(curl_url_cleanup_p)
#define _cleanup_curl_text_ _cleanup_(curl_text_free_p)

void url_base_release(struct url_base *base)
{
	if (!base)
		return;
	free(base->base);
	free(base->user);
	free(base->password);
	*base = (struct url_base){0};
}

static int out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static void cut_slashes(char *text, size_t min_len)
{
	size_t len = strlen(text);

	while (len > min_len && text[len - 1] == '/')
		text[--len] = '\0';
}

static int parse_path(const char *path, struct url_base *ret, struct err *err)
{
	_cleanup_free_ char *cwd = NULL;

	if (!path[0])
		return err_set(err, EINVAL, "an empty path is no mirror");
	ret->is_local = true;
	if (path[0] == '/') {
		ret->base = strdup(path);
	} else {
		cwd = getcwd(NULL, 0);
		if (!cwd)
			return err_set(err, errno,
				       "cannot find the current directory");
		if (asprintf(&ret->base, "%s/%s", strcmp(cwd, "/") ? cwd : "",
			     path) < 0)
			ret->base = NULL;
	}
	if (!ret->base)
		return out_of_memory(err);
	cut_slashes(ret->base, 1);
	return 0;
}

/* file:///PATH or file://localhost/PATH, escapes decoded. */
static int parse_file_url(const char *rest, struct url_base *ret,
			  struct err *err)
{
	_cleanup_curl_text_ char *path = NULL;
	int len = 0;

	if (!strncasecmp(rest, "localhost/", 10))
		rest += 9;
	if (rest[0] != '/')
		return err_set(err, EINVAL,
			       "a file:// URL has no host "
			       "(write file:///PATH)");
	path = curl_easy_unescape(NULL, rest, 0, &len);
	if (!path)
		return out_of_memory(err);
	if (strlen(path) != (size_t)len)
		return err_set(err, EINVAL, "zero byte in a file:// URL");
	return parse_path(path, ret, err);
}

static bool has_part(CURLU *url, CURLUPart part)
{
	_cleanup_curl_text_ char *text = NULL;

	return curl_url_get(url, part, &text, 0) == CURLUE_OK;
}

static char *get_part(CURLU *url, CURLUPart part, unsigned flags)
{
	_cleanup_curl_text_ char *text = NULL;

	if (curl_url_get(url, part, &text, flags) != CURLUE_OK)
		return NULL;
	return strdup(text);
}

static int parse_http(const char *text, struct url_base *ret, struct err *err)
{
	_cleanup_url_ CURLU *url = curl_url();

	if (!url)
		return out_of_memory(err);
	/* libcurl takes the first part of http:///a/b as host. */
	if (strstr(text, ":///") || curl_url_set(url, CURLUPART_URL, text,
						 CURLU_PATH_AS_IS) != CURLUE_OK)
		return err_set(err, EINVAL, "not a valid URL");
	if (strpbrk(text, "?#") || has_part(url, CURLUPART_QUERY) ||
	    has_part(url, CURLUPART_FRAGMENT))
		return err_set(err, EINVAL,
			       "the URL of a mirror has no '?' and no '#'");
	ret->user = get_part(url, CURLUPART_USER, CURLU_URLDECODE);
	ret->password = get_part(url, CURLUPART_PASSWORD, CURLU_URLDECODE);
	curl_url_set(url, CURLUPART_USER, NULL, 0);
	curl_url_set(url, CURLUPART_PASSWORD, NULL, 0);
	ret->base = get_part(url, CURLUPART_URL, 0);
	if (!ret->base)
		return out_of_memory(err);
	cut_slashes(ret->base, strlen("http://x"));
	return 0;
}

/* Length of a scheme before "://", or 0: a path. */
static size_t scheme_len(const char *text)
{
	size_t len = 0;

	while (isalnum((unsigned char)text[len]) ||
	       (len > 0 && text[len] && strchr("+-.", text[len])))
		len++;
	return len > 0 && !strncmp(text + len, "://", 3) ? len : 0;
}

bool url_is_s3(const char *text)
{
	return scheme_len(text) == 2 && !strncasecmp(text, "s3", 2);
}

int url_base_parse(const char *text, struct url_base *ret, struct err *err)
{
	struct url_base base = {0};
	size_t len = scheme_len(text);
	int r;

	if (len == 0)
		r = parse_path(text, &base, err);
	else if (len == 4 && !strncasecmp(text, "file", 4))
		r = parse_file_url(text + 7, &base, err);
	else if ((len == 4 && !strncasecmp(text, "http", 4)) ||
		 (len == 5 && !strncasecmp(text, "https", 5)))
		r = parse_http(text, &base, err);
	else if (len == 2 && !strncasecmp(text, "hf", 2))
		r = err_set(err, EINVAL,
			    "hf:// is no mirror (write source = hf://ORG/NAME, "
			    "without '#')");
	else
		r = err_set(err, EINVAL,
			    "unknown scheme '%.*s' (use a path, "
			    "file://, http://, https:// or s3://)",
			    (int)len, text);
	if (r < 0) {
		url_base_release(&base);
		return r;
	}
	*ret = base;
	return 0;
}

bool path_below_valid(const char *path)
{
	if (!path[0])
		return true;
	for (;;) {
		size_t len = strcspn(path, "/");

		if (len == 0 || (len == 1 && path[0] == '.') ||
		    (len == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += len;
		if (!*path)
			return true;
		path++;
	}
}

static bool is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
	       c == '~' || c == '/';
}

char *url_join(const struct url_base *base, const char *path)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t base_len = strlen(base->base);
	/* Each byte becomes three at most; '/' and the end. */
	char *joined = malloc(base_len + strlen(path) * 3 + 2);
	char *to = joined;

	if (!joined)
		return NULL;
	memcpy(to, base->base, base_len);
	to += base_len;
	if (*path && base_len > 0 && to[-1] != '/')
		*to++ = '/';
	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;

		if (base->is_local || is_plain(c)) {
			*to++ = (char)c;
			continue;
		}
		*to++ = '%';
		*to++ = digits[c >> 4];
		*to++ = digits[c & 15];
	}
	*to = '\0';
	return joined;
}

char *url_append(const struct url_base *base, const char *path)
{
	char *joined;

	return asprintf(&joined, "%s/%s", base->base, path) < 0 ? NULL : joined;
}

static bool same_part(CURLU *a, CURLU *b, CURLUPart part, unsigned flags)
{
	_cleanup_free_ char *x = get_part(a, part, flags);
	_cleanup_free_ char *y = get_part(b, part, flags);

	return x && y && !strcasecmp(x, y);
}

static bool is_scheme(CURLU *url, const char *scheme)
{
	_cleanup_free_ char *text = get_part(url, CURLUPART_SCHEME, 0);

	return text && !strcasecmp(text, scheme);
}

/* Control bytes could end a header line somewhere on the way. */
static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	return false;
}

int url_redirect(const char *from, const char *location, char **ret,
		 bool *ret_same_origin, struct err *err)
{
	_cleanup_url_ CURLU *old = curl_url();
	_cleanup_url_ CURLU *new = curl_url();
	_cleanup_free_ char *target = NULL;

	if (!old || !new)
		return out_of_memory(err);
	if (!location[0] || has_control(location) ||
	    curl_url_set(old, CURLUPART_URL, from, CURLU_PATH_AS_IS) ||
	    curl_url_set(new, CURLUPART_URL, from, CURLU_PATH_AS_IS) ||
	    curl_url_set(new, CURLUPART_URL, location,
			 CURLU_PATH_AS_IS | CURLU_NON_SUPPORT_SCHEME))
		return err_set(err, EPROTO, "redirect to nonsense");
	if (!is_scheme(new, "http") && !is_scheme(new, "https"))
		return err_set(err, EPROTO, "redirect to another protocol");
	if (is_scheme(old, "https") && !is_scheme(new, "https"))
		return err_set(err, EPROTO, "redirect from https to http");
	if (has_part(new, CURLUPART_USER) || has_part(new, CURLUPART_PASSWORD))
		return err_set(err, EPROTO, "redirect with a password in it");
	curl_url_set(new, CURLUPART_FRAGMENT, NULL, 0);
	target = get_part(new, CURLUPART_URL, 0);
	if (!target)
		return out_of_memory(err);
	*ret_same_origin =
		same_part(old, new, CURLUPART_SCHEME, 0) &&
		same_part(old, new, CURLUPART_HOST, 0) &&
		same_part(old, new, CURLUPART_PORT, CURLU_DEFAULT_PORT);
	*ret = steal_ptr(target);
	return 0;
}

char *url_redact(const char *url)
{
	size_t scheme = scheme_len(url);
	const char *rest, *at;
	size_t len, authority;
	char *text;

	if (scheme == 0)
		return strdup(url);
	rest = url + scheme + 3;
	authority = strcspn(rest, "/?#");
	/* The last '@' before the path: a password may hold one. */
	at = memrchr(rest, '@', authority);
	if (at)
		rest = at + 1;
	len = strcspn(rest, "?#");
	if (asprintf(&text, "%.*s://%.*s", (int)scheme, url, (int)len, rest) <
	    0)
		return NULL;
	return text;
}
