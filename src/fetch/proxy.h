/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_PROXY_H
#define LARDER_FETCH_PROXY_H

/* Proxies as configured, or as the environment says. Constant. All may be
 * NULL; names may hold passwords. */
struct proxies {
	char *all; /* for every URL, unless the next have one */
	char *http, *https;
	char *none; /* list of hosts */
};

/* option: NULL: the environment's; "": none; else for every URL. -ENOMEM. */
int proxies_open(struct proxies *proxies, const char *option);
void proxies_release(struct proxies *proxies);

/* Pure: the proxy for a URL, or NULL. */
const char *proxy_for(const struct proxies *proxies, const char *url);

#endif
