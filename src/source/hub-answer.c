/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Hub's header lines mean. Its error codes are headers, and so is
 * nearly all it says about a file: bodies of refusals are not read.
 */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "source/hub.h"

/* Longer than any window of the Hub, so that nonsense costs no hour. */
#define RATE_WAIT_MAX_S 600u
/* For a location that does not say how long it holds. */
#define LOCATION_DEFAULT_S 300
/* A location is renewed a little before its end. */
#define LOCATION_MARGIN_S 10

char *hub_header(const char *headers, const char *name)
{
	size_t name_len = strlen(name);

	for (const char *line = headers; line && *line;) {
		size_t len = strcspn(line, "\r\n");

		if (len > name_len && line[name_len] == ':' &&
		    strncasecmp(line, name, name_len) == 0) {
			const char *value = line + name_len + 1;
			const char *end = line + len;

			while (value < end && isblank((unsigned char)*value))
				value++;
			while (end > value && isblank((unsigned char)end[-1]))
				end--;
			return strndup(value, (size_t)(end - value));
		}
		line += len;
		line += strspn(line, "\r\n");
	}
	return NULL;
}

/* ---- refusals */

static const char *who(const struct hub_repo *repo, char *text, size_t size)
{
	static const char *const words[] = {
		[HUB_MODEL] = "model",
		[HUB_DATASET] = "dataset",
		[HUB_SPACE] = "space",
	};

	snprintf(text, size, "%s '%s'", words[repo->kind], repo->id);
	return text;
}

static int refuse_access(unsigned status, const char *code, const char *said,
			 const struct hub_repo *repo, bool has_token,
			 struct err *err)
{
	char name[120];

	who(repo, name, sizeof(name));
	if (strcmp(code, "GatedRepo") == 0)
		return err_set(err, EACCES,
			       has_token ?
				       "%s is gated and the token's owner has "
				       "no access (ask for it on the page of "
				       "the repository)" :
				       "%s is gated (ask for access on its "
				       "page, then give token-file=FILE or "
				       "HF_TOKEN)",
			       name);
	if (status == 401 && strcmp(code, "RepoNotFound") == 0)
		return err_set(err, has_token ? ENOENT : EACCES,
			       has_token ?
				       "there is no %s, or the token may not "
				       "see it" :
				       "there is no %s, or it is private (then "
				       "give token-file=FILE or HF_TOKEN)",
			       name);
	if (status == 401)
		return err_set(err, EACCES,
			       "the Hub does not know this token (check "
			       "token-file, HF_TOKEN)");
	if (strcasestr(said, "disabled"))
		return err_set(err, EACCES, "%s was disabled by the Hub", name);
	return err_set(err, EACCES, "the Hub refuses %s: HTTP %u", name,
		       status);
}

int hub_refusal(unsigned status, const char *headers,
		const struct hub_repo *repo, bool has_token, struct err *err)
{
	_cleanup_free_ char *code = hub_header(headers, "x-error-code");
	_cleanup_free_ char *said = hub_header(headers, "x-error-message");
	char name[120];

	who(repo, name, sizeof(name));
	if (status == 401 || status == 403)
		return refuse_access(status, code ?: "", said ?: "", repo,
				     has_token, err);
	if (status != 404)
		return err_set(err, EIO, "HTTP %u", status);
	if (code && strcmp(code, "RevisionNotFound") == 0)
		return err_set(err, ENOENT, "%s has no revision '%s'", name,
			       repo->revision);
	if (code && strcmp(code, "EntryNotFound") == 0)
		return err_set(err, ENOENT, "%s has no '%s'", name,
			       repo->subdir);
	if (code && strcmp(code, "RepoNotFound") == 0)
		return err_set(err, ENOENT,
			       has_token ? "there is no %s, or the token may "
					   "not see it" :
					   "there is no %s",
			       name);
	/* A server that says 404 to everything is no Hub. */
	return err_set(err, EIO,
		       "HTTP 404 without a reason: no Hub answers there (check "
		       "HF_ENDPOINT)");
}

/* ---- limits */

/* "api";r=0;t=55: the number after `;key=`. */
static bool parameter(const char *text, const char *key, uint64_t *ret)
{
	size_t len = strlen(key);

	for (const char *at = strchr(text, ';'); at; at = strchr(at, ';')) {
		char number[24];
		size_t digits;

		at++;
		at += strspn(at, " \t");
		if (strncmp(at, key, len) != 0 || at[len] != '=')
			continue;
		digits = strspn(at + len + 1, "0123456789");
		if (digits == 0 || digits >= sizeof(number))
			return false;
		memcpy(number, at + len + 1, digits);
		number[digits] = '\0';
		return parse_u64(number, ret) == 0;
	}
	return false;
}

uint32_t hub_rate_wait_ms(const char *headers)
{
	_cleanup_free_ char *limit = hub_header(headers, "ratelimit");
	uint64_t left, seconds;

	if (!limit || !parameter(limit, "r", &left) || left > 0 ||
	    !parameter(limit, "t", &seconds))
		return 0;
	if (seconds >= RATE_WAIT_MAX_S)
		seconds = RATE_WAIT_MAX_S - 1;
	return (uint32_t)(seconds + 1) * 1000;
}

/* ---- locations */

/* The value of a query's key, as it stands; malloc or NULL. */
static char *query_value(const char *url, const char *key)
{
	size_t len = strlen(key);
	const char *at = strchr(url, '?');

	for (; at; at = strchr(at, '&')) {
		at++;
		if (strncmp(at, key, len) == 0 && at[len] == '=')
			return strndup(at + len + 1,
				       strcspn(at + len + 1, "&#"));
	}
	return NULL;
}

/* YYYYMMDDTHHMMSSZ */
static bool parse_compact_time(const char *text, int64_t *ret)
{
	char full[32];

	if (strlen(text) != 16)
		return false;
	snprintf(full, sizeof(full), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", text,
		 text + 4, text + 6, text + 9, text + 11, text + 13);
	return parse_time(full, ret) == 0;
}

static bool stated_end(const char *location, int64_t *ret)
{
	_cleanup_free_ char *expires = query_value(location, "Expires");
	_cleanup_free_ char *date = query_value(location, "X-Amz-Date");
	_cleanup_free_ char *seconds = query_value(location, "X-Amz-Expires");
	uint64_t number;

	if (expires && parse_u64(expires, &number) == 0 &&
	    number < UINT32_MAX * UINT64_C(16)) {
		*ret = (int64_t)number;
		return true;
	}
	if (!date || !seconds || parse_u64(seconds, &number) < 0 ||
	    number > UINT32_MAX || !parse_compact_time(date, ret))
		return false;
	*ret += (int64_t)number;
	return true;
}

int64_t hub_location_expires(const char *location, int64_t now)
{
	int64_t end, life, margin = LOCATION_MARGIN_S;

	if (!stated_end(location, &end))
		return now + LOCATION_DEFAULT_S;
	life = end - now;
	if (margin > life / 4)
		margin = life / 4;
	return end - margin;
}

/* ---- files */

/* Without W/ and quotes, in place. */
static char *bare_tag(char *tag)
{
	size_t len;

	if (tag[0] == 'W' && tag[1] == '/')
		tag += 2;
	len = strlen(tag);
	if (len >= 2 && tag[0] == '"' && tag[len - 1] == '"') {
		tag[len - 1] = '\0';
		tag++;
	}
	return tag;
}

int hub_resolved_check(const char *headers, const char *commit, uint64_t size,
		       const struct digest *content, struct err *err)
{
	_cleanup_free_ char *now = hub_header(headers, "x-repo-commit");
	_cleanup_free_ char *length = hub_header(headers, "x-linked-size");
	_cleanup_free_ char *tag = hub_header(headers, "x-linked-etag");
	char hex[DIGEST_HEX_MAX];
	uint64_t linked;

	if (now && strcmp(now, commit) != 0)
		return err_set(err, EIO, "the Hub answers with another commit");
	if (length && (parse_u64(length, &linked) < 0 || linked != size))
		return err_set(err, EIO,
			       "the Hub has a file of another size there");
	if (!tag || digest_is_none(content))
		return 0;
	/* Other kinds of tags say nothing. */
	const char *bare = bare_tag(tag);
	if (strlen(bare) == 2 * digest_size(content->type) &&
	    strcmp(bare, digest_hex(content, hex)) != 0)
		return err_set(err, EIO, "the Hub has another file there");
	return 0;
}
