/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which proxy a URL goes through. The rules are those of curl and its
 * environment; they are here because libcurl does not say which of the two it
 * could not reach, and an error has to name the right one.
 */
#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "fetch/proxy.h"

#define HOST_MAX 256

/* With a scheme, so that it can be shown without its password. */
static int copy(const char *text, char **ret)
{
	if (!text || !text[0])
		return 0;
	if (strstr(text, "://"))
		*ret = strdup(text);
	else if (asprintf(ret, "http://%s", text) < 0)
		*ret = NULL;
	return *ret ? 0 : -ENOMEM;
}

static const char *first_of(const char *name, const char *other)
{
	const char *value = getenv(name);

	return value ? value : getenv(other);
}

int proxies_open(struct proxies *proxies, const char *option)
{
	const char *none = first_of("no_proxy", "NO_PROXY");
	int r;

	*proxies = (struct proxies){0};
	if (none && none[0]) {
		proxies->none = strdup(none);
		if (!proxies->none)
			return -ENOMEM;
	}
	if (option)
		return copy(option, &proxies->all);
	/* A web server's child gets HTTP_PROXY from whoever asks it. */
	r = copy(getenv("http_proxy"), &proxies->http);
	if (r == 0)
		r = copy(first_of("https_proxy", "HTTPS_PROXY"),
			 &proxies->https);
	if (r == 0)
		r = copy(first_of("all_proxy", "ALL_PROXY"), &proxies->all);
	return r;
}

void proxies_release(struct proxies *proxies)
{
	free(proxies->all);
	free(proxies->http);
	free(proxies->https);
	free(proxies->none);
	*proxies = (struct proxies){0};
}

/* Without brackets, user, port and a dot at its end. */
static void host_of(const char *url, char ret[HOST_MAX])
{
	const char *start = strstr(url, "://") + 3;
	size_t len = strcspn(start, "/?#");
	const char *at = memrchr(start, '@', len);

	if (at) {
		len -= (size_t)(at + 1 - start);
		start = at + 1;
	}
	if (len > 0 && start[0] == '[') {
		start++;
		len = strcspn(start, "]");
	} else {
		const char *colon = memchr(start, ':', len);

		len = colon ? (size_t)(colon - start) : len;
	}
	if (len > 0 && start[len - 1] == '.')
		len--;
	snprintf(ret, HOST_MAX, "%.*s", (int)len, start);
}

/* The length in bytes, 0: no address. */
static size_t address_of(const char *text, uint8_t ret[16])
{
	if (inet_pton(AF_INET, text, ret) == 1)
		return 4;
	return inet_pton(AF_INET6, text, ret) == 1 ? 16 : 0;
}

/* "10.0.0.0/8", or an address. */
static bool network_has(const char *network, const uint8_t *address, size_t len)
{
	char text[HOST_MAX];
	uint8_t base[16];
	uint64_t bits = len * 8;
	char *slash;

	snprintf(text, sizeof(text), "%s", network);
	slash = strchr(text, '/');
	if (slash) {
		*slash = '\0';
		if (parse_u64(slash + 1, &bits) < 0 || bits > len * 8)
			return false;
	}
	if (address_of(text, base) != len ||
	    memcmp(base, address, bits / 8) != 0)
		return false;
	return bits % 8 == 0 ||
	       (base[bits / 8] ^ address[bits / 8]) >> (8 - bits % 8) == 0;
}

static bool domain_has(const char *domain, const char *host)
{
	size_t host_len = strlen(host), len;

	if (domain[0] == '.')
		domain++;
	len = strlen(domain);
	if (len > 0 && domain[len - 1] == '.')
		len--;
	if (len == 0 || len > host_len ||
	    strncasecmp(host + host_len - len, domain, len) != 0)
		return false;
	return len == host_len || host[host_len - len - 1] == '.';
}

static bool is_excepted(const char *list, const char *host)
{
	uint8_t address[16];
	size_t address_len = address_of(host, address);

	if (!strcmp(list, "*"))
		return true;
	while (*list) {
		size_t len = strcspn(list, ", \t");
		char item[HOST_MAX];

		if (len > 0 && len < sizeof(item)) {
			snprintf(item, sizeof(item), "%.*s", (int)len, list);
			if (address_len ?
				    network_has(item, address, address_len) :
				    domain_has(item, host))
				return true;
		}
		list += len + (list[len] != '\0');
	}
	return false;
}

const char *proxy_for(const struct proxies *proxies, const char *url)
{
	bool is_https = !strncasecmp(url, "https:", 6);
	const char *proxy = is_https ? proxies->https : proxies->http;
	char host[HOST_MAX];

	if (!proxy)
		proxy = proxies->all;
	if (!proxy || !proxies->none)
		return proxy;
	host_of(url, host);
	return is_excepted(proxies->none, host) ? NULL : proxy;
}
