/* SPDX-License-Identifier: Apache-2.0 */
/* A list of hosts in no_proxy, and behind a line's end what follows http:// in
 * the URL to be fetched. */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = calloc(1, len + 1), *url, *rest;
	struct proxies proxies = {.http = "p"};
	const char *proxy;

	assert(text);
	if (len > 0)
		memcpy(text, data, len);
	rest = strchrnul(text, '\n');
	if (*rest)
		*rest++ = '\0';
	assert(asprintf(&url, "http://%s", rest) > 0);
	proxies.none = text;
	proxy = proxy_for(&proxies, url);
	assert(!proxy || strcmp(proxy, "p") == 0);
	proxies.none = "*";
	assert(!proxy_for(&proxies, url));
	free(url);
	free(text);
	return 0;
}
