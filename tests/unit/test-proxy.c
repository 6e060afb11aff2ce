/* SPDX-License-Identifier: Apache-2.0 */
/* Which proxy a URL goes through. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/proxy.h"

static void test_choice(void **state)
{
	static const struct {
		struct proxies proxies; /* all, http, https, none */
		const char *url, *proxy;
	} rows[] = {
		{{0}, "http://h/", NULL},
		{{"a", NULL, NULL, NULL}, "http://h/", "a"},
		{{"a", NULL, NULL, NULL}, "https://h/", "a"},
		{{"a", "b", NULL, NULL}, "http://h/", "b"},
		{{"a", "b", NULL, NULL}, "https://h/", "a"},
		{{NULL, "b", NULL, NULL}, "https://h/", NULL},
		{{NULL, "b", "c", NULL}, "HTTPS://h/", "c"},
		{{"a", NULL, NULL, "*"}, "http://h/", NULL},
		{{"a", NULL, NULL, "h"}, "http://h/", NULL},
		{{"a", NULL, NULL, "h"}, "http://H.:80/", NULL},
		{{"a", NULL, NULL, "h"}, "http://u:p@h:80/", NULL},
		{{"a", NULL, NULL, "h"}, "http://x.h/", NULL},
		{{"a", NULL, NULL, "h"}, "http://xh/", "a"},
		{{"a", NULL, NULL, ".h.org"}, "http://x.h.org/", NULL},
		{{"a", NULL, NULL, ".h.org"}, "http://h.org/", NULL},
		{{"a", NULL, NULL, "x.h.org"}, "http://h.org/", "a"},
		{{"a", NULL, NULL, "b, ,,h"}, "http://h/", NULL},
		{{"a", NULL, NULL, "b h"}, "http://h", NULL},
		{{"a", NULL, NULL, "1.2.3.4"}, "http://1.2.3.4/", NULL},
		{{"a", NULL, NULL, "3.4"}, "http://1.2.3.4/", "a"},
		{{"a", NULL, NULL, "10.0.0.0/8"}, "http://10.9.8.7/", NULL},
		{{"a", NULL, NULL, "10.0.0.0/8"}, "http://11.0.0.0/", "a"},
		{{"a", NULL, NULL, "10.4.0.0/15"}, "http://10.5.9.9/", NULL},
		{{"a", NULL, NULL, "10.4.0.0/15"}, "http://10.6.0.0/", "a"},
		{{"a", NULL, NULL, "0.0.0.0/0"}, "http://9.9.9.9/", NULL},
		{{"a", NULL, NULL, "0.0.0.0/33"}, "http://9.9.9.9/", "a"},
		{{"a", NULL, NULL, "1.2.3.4/x"}, "http://1.2.3.4/", "a"},
		{{"a", NULL, NULL, "fd00::/8"}, "http://[fd12::1]:80/", NULL},
		{{"a", NULL, NULL, "fd00::/8"}, "http://[fe12::1]:80/", "a"},
		{{"a", NULL, NULL, "::1"}, "http://[0::1]/", NULL},
		{{"a", NULL, NULL, "."}, "http://h/", "a"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *proxy = proxy_for(&rows[i].proxies, rows[i].url);

		if (!proxy != !rows[i].proxy ||
		    (proxy && strcmp(proxy, rows[i].proxy) != 0))
			fail_msg("row %zu: '%s': %s", i, rows[i].url,
				 proxy ? proxy : "none");
	}
}

static void test_environment(void **state)
{
	struct proxies proxies;

	(void)state;
	setenv("http_proxy", "h:1", 1);
	setenv("HTTP_PROXY", "no:1", 1);
	setenv("HTTPS_PROXY", "no:1", 1);
	setenv("https_proxy", "", 1); /* the small one counts, also if empty */
	setenv("ALL_PROXY", "socks5h://u:p@a:1", 1);
	setenv("NO_PROXY", "x", 1);
	unsetenv("all_proxy");
	unsetenv("no_proxy");
	assert_int_equal(proxies_open(&proxies, NULL), 0);
	assert_string_equal(proxies.http, "http://h:1");
	assert_null(proxies.https);
	assert_string_equal(proxies.all, "socks5h://u:p@a:1");
	assert_string_equal(proxies.none, "x");
	proxies_release(&proxies);

	assert_int_equal(proxies_open(&proxies, "o:2"), 0);
	assert_string_equal(proxies.all, "http://o:2");
	assert_null(proxies.http);
	assert_string_equal(proxies.none, "x");
	proxies_release(&proxies);

	assert_int_equal(proxies_open(&proxies, ""), 0);
	assert_null(proxies.all);
	assert_null(proxies.http);
	proxies_release(&proxies);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
