/* SPDX-License-Identifier: Apache-2.0 */
/* Names of repositories, the Hub's headers, its listings. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "source/source.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define BLOB "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

static void test_sources(void **state)
{
	static const struct {
		const char *text;
		enum hub_kind kind;
		const char *id, *revision, *subdir, *info;
	} rows[] = {
		{"hf://a/b", HUB_MODEL, "a/b", "main", "",
		 "api/models/a/b/revision/main"},
		{"hf://models/a/b", HUB_MODEL, "a/b", "main", "",
		 "api/models/a/b/revision/main"},
		{"hf://gpt2", HUB_MODEL, "gpt2", "main", "",
		 "api/models/gpt2/revision/main"},
		{"hf://datasets/a/b@v1.0/x/y", HUB_DATASET, "a/b", "v1.0",
		 "x/y", "api/datasets/a/b/revision/v1.0"},
		{"hf://spaces/a/b_c.d@refs/pr/1/x/", HUB_SPACE, "a/b_c.d",
		 "refs/pr/1", "x", "api/spaces/a/b_c.d/revision/refs%2Fpr%2F1"},
		{"hf://a/b@feature%2Fx", HUB_MODEL, "a/b", "feature/x", "",
		 "api/models/a/b/revision/feature%2Fx"},
		{"hf://a/b@refs/convert/parquet", HUB_MODEL, "a/b",
		 "refs/convert/parquet", "",
		 "api/models/a/b/revision/refs%2Fconvert%2Fparquet"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hub_repo repo;
		char *target;

		assert_int_equal(hub_parse(rows[i].text, &repo, NULL), 0);
		assert_int_equal(repo.kind, rows[i].kind);
		assert_string_equal(repo.id, rows[i].id);
		assert_string_equal(repo.revision, rows[i].revision);
		assert_string_equal(repo.subdir, rows[i].subdir);
		target = hub_info_target(&repo);
		assert_string_equal(target, rows[i].info);
		free(target);
		hub_repo_release(&repo);
	}
}

static void test_refused_sources(void **state)
{
	static const char *const rows[] = {
		"hf://",	   "hf:///b",	       "hf://a/",
		"hf://-a/b",	   "hf://a/b.",	       "hf://a/b--c",
		"hf://a/b..c",	   "hf://a/b@",	       "hf://a/b@x%2",
		"hf://a/b@x%00",   "hf://a/b@-x",      "hf://a/b@..",
		"hf://a/b@a b",	   "hf://a/b/..",      "hf://a/b//c",
		"hf://a/b/./c",	   "hf://a/b@v1/../x", "hf://a%2Fb",
		"hf://a/b?x=http", "hf://a b/c",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hub_repo repo;
		struct err err = {0};

		if (hub_parse(rows[i], &repo, &err) != -EINVAL)
			fail_msg("'%s' was taken", rows[i]);
		assert_true(err.text[0]);
	}
}

static void test_pages(void **state)
{
	static const struct {
		const char *link, *next;
		int result;
	} rows[] = {
		{"<https://huggingface.co/api/models/a/b/tree/" COMMIT
		 "?recursive=true&cursor=x>; rel=\"next\"",
		 "api/models/a/b/tree/" COMMIT "?recursive=true&cursor=x", 0},
		{"</api/models/a/b/tree/" COMMIT "?cursor=x>; rel=\"next\"",
		 "api/models/a/b/tree/" COMMIT "?cursor=x", 0},
		{"<http://evil/hub/api/models/a/b/tree/" COMMIT
		 "?cursor=x>; rel=\"next\"",
		 "api/models/a/b/tree/" COMMIT "?cursor=x", 0},
		{"<http://h/first>; rel=\"prev\", <http://h/api/models/a/b/tree/" COMMIT
		 "?c>; rel=\"next\"",
		 "api/models/a/b/tree/" COMMIT "?c", 0},
		{"<http://h/first>; rel=\"prev\"", NULL, 0},
		{"<http://h/api/models/a/c/tree/main?cursor=x>; rel=\"next\"",
		 NULL, -EBADMSG},
		{"<http://h/api/models/a/b/tree/" COMMIT ">; rel=\"next\"",
		 NULL, -EBADMSG},
		{"<http://h", NULL, -EBADMSG},
	};
	struct hub_repo repo;
	char headers[512], *next;

	(void)state;
	assert_int_equal(hub_parse("hf://a/b", &repo, NULL), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(headers, sizeof(headers),
			 "HTTP/1.1 200 OK\r\nX: y\r\nlink:  %s \r\n\r\n",
			 rows[i].link);
		assert_int_equal(
			hub_next_page(headers, &repo, COMMIT, &next, NULL),
			rows[i].result);
		if (rows[i].next)
			assert_string_equal(next, rows[i].next);
		else
			assert_null(next);
		free(next);
	}
	assert_int_equal(hub_next_page(NULL, &repo, COMMIT, &next, NULL), 0);
	assert_null(next);
	hub_repo_release(&repo);
}

static void test_limits(void **state)
{
	(void)state;
	assert_int_equal(hub_rate_wait_ms("RateLimit: \"api\";r=0;t=55\r\n"),
			 56000);
	assert_int_equal(hub_rate_wait_ms("RateLimit: \"api\";r=3;t=55\r\n"),
			 0);
	assert_int_equal(hub_rate_wait_ms("ratelimit: \"api\"; r=0; t=1\r\n"),
			 2000);
	assert_int_equal(hub_rate_wait_ms("RateLimit: \"api\";r=0\r\n"), 0);
	assert_int_equal(
		hub_rate_wait_ms("RateLimit: \"x\";r=0;t=99999999999\r\n"),
		600000);
	assert_int_equal(hub_rate_wait_ms("X: y\r\n"), 0);
	assert_int_equal(hub_rate_wait_ms(NULL), 0);
}

static void test_locations(void **state)
{
	static const int64_t now = 1796000000; /* 2026-11-30T00:53:20Z */

	(void)state;
	assert_int_equal(
		hub_location_expires(
			"https://c/x?Policy=p&Expires=1796003600&S=1", now),
		now + 3590);
	assert_int_equal(
		hub_location_expires("https://c/x?Expires=1796000004", now),
		now + 3);
	assert_int_equal(
		hub_location_expires(
			"https://c/x?X-Amz-Date=20261130T005320Z&X-Amz-"
			"Expires=3600",
			now),
		now + 3590);
	assert_int_equal(hub_location_expires("https://c/x", now), now + 300);
	assert_int_equal(hub_location_expires("https://c/x?Expires=soon", now),
			 now + 300);
}

static void test_resolved_files(void **state)
{
	struct digest content = {.type = DIGEST_GIT_SHA1};

	(void)state;
	assert_int_equal(hub_resolved_check("X-Repo-Commit: " COMMIT
					    "\r\nX-Linked-Size: 7\r\n",
					    COMMIT, 7, &content, NULL),
			 0);
	assert_int_equal(hub_resolved_check("X-Linked-Size: 8\r\n", COMMIT, 7,
					    &content, NULL),
			 -EIO);
	assert_int_equal(hub_resolved_check("X-Repo-Commit: " BLOB "\r\n",
					    COMMIT, 7, &content, NULL),
			 -EIO);
	assert_int_equal(hub_resolved_check("X-Linked-Etag: W/\"" BLOB "\"\r\n",
					    COMMIT, 7, &content, NULL),
			 -EIO);
	assert_int_equal(hub_resolved_check("X-Linked-Etag: \"short\"\r\n",
					    COMMIT, 7, &content, NULL),
			 0);
}

struct made {
	struct catalog *catalog;
};

static int keep_catalog(void *arg, const struct digest *digest,
			const void *data, size_t len)
{
	struct made *made = arg;
	void *copy = malloc(len);

	(void)digest;
	memcpy(copy, data, len);
	return catalog_open(copy, len, &made->catalog, NULL);
}

static int make(const char *listing, struct made *made, struct hub_totals *ret)
{
	const struct hub_info info = {.commit = COMMIT, .modified = 1796000000};
	struct hub_repo repo;
	struct hub_tree *tree;
	int r;

	assert_int_equal(hub_parse("hf://a/b", &repo, NULL), 0);
	tree = hub_tree_new(&repo);
	*made = (struct made){0};
	r = hub_tree_add(tree, listing, strlen(listing), NULL);
	if (r == 0)
		r = hub_tree_finish(tree, &info, keep_catalog, made, ret, NULL);
	hub_tree_free(tree);
	hub_repo_release(&repo);
	return r;
}

#define FILE_OF(path)                                                          \
	"{\"type\":\"file\",\"path\":\"" path "\",\"size\":5,\"oid\":\"" BLOB  \
	"\"}"

static void test_listing(void **state)
{
	struct hub_totals totals, other;
	struct catalog_entry entry;
	struct catalog_blob blob;
	struct made made;
	uint32_t index;

	(void)state;
	assert_int_equal(make("[" FILE_OF("a-b") "," FILE_OF(
				      "a/c#d") "," FILE_OF("B") "]",
			      &made, &totals),
			 0);
	assert_int_equal(totals.entry_count, 4);
	assert_int_equal(totals.total_bytes, 15);
	catalog_get(made.catalog, 0, &entry);
	assert_int_equal(entry.count, 3);
	assert_int_equal(catalog_find(made.catalog, entry.first, entry.count,
				      "a", 1, &index),
			 0);
	catalog_get(made.catalog, index, &entry);
	assert_int_equal(entry.type, ENTRY_DIRECTORY);
	catalog_get(made.catalog, entry.first, &entry);
	assert_int_equal(entry.size, 5);
	assert_int_equal(entry.mtime_s, 1796000000);
	catalog_get_blob(made.catalog, entry.blob, &blob);
	assert_int_equal(blob.kind, BLOB_REFERENCE);
	assert_memory_equal(blob.url, "a/b/resolve/" COMMIT "/a/c#d",
			    blob.url_len);
	assert_int_equal(blob.content.type, DIGEST_GIT_SHA1);
	catalog_close(made.catalog);

	/* Whatever the order of the listing. */
	assert_int_equal(make("[" FILE_OF("B") "," FILE_OF("a/c#d") "," FILE_OF(
				      "a-b") "]",
			      &made, &other),
			 0);
	assert_true(digest_equal(&totals.catalog, &other.catalog));
	catalog_close(made.catalog);
}

static void test_refused_listings(void **state)
{
	static const char *const rows[] = {
		"",
		"{}",
		"[1]",
		"[{}]",
		"[" FILE_OF("a") "," FILE_OF("a") "]",
		"[" FILE_OF("a") "," FILE_OF("a/b") "]",
		"[" FILE_OF("../a") "]",
		"[" FILE_OF("/a") "]",
		"[" FILE_OF("") "]",
		"[" FILE_OF("a/") "]",
		"[{\"type\":\"file\",\"path\":\"a\",\"size\":5}]",
		"[{\"type\":\"file\",\"path\":\"a\",\"size\":-5,\"oid\":\"" BLOB
		"\"}]",
		"[{\"type\":\"file\",\"path\":\"a\",\"size\":5,\"oid\":\"" BLOB
		"\",\"lfs\":{\"oid\":\"" BLOB "\",\"size\":5}}]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hub_totals totals;
		struct made made;

		if (make(rows[i], &made, &totals) != -EBADMSG)
			fail_msg("'%s' was taken", rows[i]);
	}
}

static void test_info(void **state)
{
	static const char *const bad[] = {
		"{}",
		"{\"id\":\"a/b\",\"sha\":\"main\"}",
		"{\"id\":\"../b\",\"sha\":\"" COMMIT "\"}",
		"{\"id\":\"a/b@x\",\"sha\":\"" COMMIT "\"}",
		"<html>",
	};
	static const char good[] =
		"{\"id\":\"a/b\",\"sha\":\"" COMMIT "\",\"lastModified\":"
		"\"2026-11-29T20:53:20.000Z\",\"disabled\":true}";
	struct hub_info info;

	(void)state;
	assert_int_equal(hub_info_parse(good, strlen(good), &info, NULL), 0);
	assert_string_equal(info.id, "a/b");
	assert_string_equal(info.commit, COMMIT);
	assert_int_equal(info.modified, 1795985600);
	assert_true(info.is_disabled);
	hub_info_release(&info);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(
			hub_info_parse(bad[i], strlen(bad[i]), &info, NULL),
			-EBADMSG);
}

/* ---- refs */

static void test_refs(void **state)
{
	static const char good[] =
		"{\"branches\":[{\"name\":\"main\",\"ref\":\"refs/heads/main\"},"
		"{\"name\":\"a/b\",\"ref\":\"refs/heads/a/b\"},{\"name\":\"n\"},"
		"{\"ref\":\"refs/heads/bad\\nline/x\"},{\"ref\":7},8,"
		"{\"ref\":\"refs/heads/up/../x\"}],"
		"\"converts\":[{\"ref\":\"refs/convert/parquet\"}],"
		"\"tags\":[{\"ref\":\"refs/tags/v/1/2\"},"
		"{\"ref\":\"refs/tags/v1.0\"}]}";
	static const char *const bad[] = {"<html>", "[]", "{\"tags\":[]}",
					  "{\"branches\":7}"};
	static const char other[] = "larder-refs 2\na/b\n";
	struct buf text;

	(void)state;
	buf_init(&text, 4096);
	assert_int_equal(hub_refs_parse(good, strlen(good), &text, NULL), 0);
	assert_int_equal(text.len, strlen("larder-refs 1\na/b\nv/1/2\n"));
	assert_memory_equal(text.data, "larder-refs 1\na/b\nv/1/2\n",
			    text.len);
	assert_true(hub_refs_below(text.data, text.len, "a/"));
	assert_true(hub_refs_below(text.data, text.len, "v/1/"));
	assert_false(hub_refs_below(text.data, text.len, "1/"));
	assert_false(hub_refs_below(text.data, text.len, "main/"));
	assert_false(hub_refs_below(text.data, text.len, "b\nv/"));
	assert_false(hub_refs_below(text.data, text.len, "a/b\nv/"));
	assert_false(hub_refs_below(text.data, 3, "a/"));
	assert_false(hub_refs_below(NULL, 0, "a/"));
	assert_false(hub_refs_below(other, strlen(other), "a/"));
	buf_clear(&text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(
			hub_refs_parse(bad[i], strlen(bad[i]), &text, NULL),
			-EBADMSG);
	buf_release(&text);
	buf_init(&text, 20);
	assert_int_equal(hub_refs_parse(good, strlen(good), &text, NULL),
			 -EFBIG);
	buf_release(&text);
}

/* ---- rules */

static void test_rules(void **state)
{
	static const char *const allow[] = {"Qwen", "datasets/EleutherAI/*",
					    "a?me/x*", "gpt2"};
	static const char *const deny[] = {"*/secret*", "models/Qwen/old",
					   "range/[Y-b]*"};
	const struct hub_rules none = {0};
	const struct hub_rules rules = {allow, deny, 4, 3};
	const struct hub_rules only_deny = {.deny = deny, .deny_count = 3};
	static const struct {
		enum hub_kind kind;
		const char *id;
		bool is_in, is_not_denied;
	} cases[] = {
		{HUB_MODEL, "Qwen/Qwen2.5-0.5B", true, true},
		{HUB_DATASET, "Qwen/any", true, true},
		{HUB_MODEL, "qwen/any", false, true},
		{HUB_MODEL, "QwenX/any", false, true},
		{HUB_DATASET, "EleutherAI/pile", true, true},
		{HUB_MODEL, "EleutherAI/pile", false, true},
		{HUB_SPACE, "acme/xyz", true, true},
		{HUB_SPACE, "acme/yz", false, true},
		{HUB_MODEL, "gpt2", true, true},
		{HUB_MODEL, "gpt2/x", true, true},
		{HUB_MODEL, "Qwen/secret-1", false, false},
		{HUB_MODEL, "qWen/SECRET", false, false},
		{HUB_MODEL, "QWEN/Old", false, false},
		{HUB_DATASET, "Qwen/old", true, true},
		/* in small letters that range is empty */
		{HUB_MODEL, "range/Zip", false, false},
		{HUB_MODEL, "range/zip", false, false},
		{HUB_MODEL, "range/axe", false, false},
		{HUB_MODEL, "range/map", false, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = {0};

		assert_int_equal(hub_rules_check(&none, cases[i].kind,
						 cases[i].id, NULL),
				 0);
		assert_int_equal(hub_rules_check(&rules, cases[i].kind,
						 cases[i].id, &err),
				 cases[i].is_in ? 0 : -EACCES);
		assert_int_equal(!err.text[0], cases[i].is_in);
		assert_int_equal(hub_rules_check(&only_deny, cases[i].kind,
						 cases[i].id, NULL),
				 cases[i].is_not_denied ? 0 : -EACCES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_refused_sources),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_resolved_files),
		cmocka_unit_test(test_listing),
		cmocka_unit_test(test_refused_listings),
		cmocka_unit_test(test_info),
		cmocka_unit_test(test_refs),
		cmocka_unit_test(test_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
