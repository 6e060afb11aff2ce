/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_OWN_TIME_H
#define LARDER_TESTS_OWN_TIME_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/io.h"

/* Milliseconds without those in which something on this machine waited for a
 * processor or a disk: a busy machine is not held to a limit, an idle one that
 * waits for an answer is. May go backwards. */
static inline int64_t own_ms(void)
{
	static const char *const paths[] = {
		"/proc/pressure/cpu",
		"/proc/pressure/io",
		"/proc/pressure/memory",
	};
	int64_t ms = (int64_t)now_ms();

	for (int i = 0; i < 3; i++) {
		FILE *file = fopen(paths[i], "re");
		unsigned long long stalled_us = 0;

		if (!file)
			continue;
		if (fscanf(file, "some %*s %*s %*s total=%llu", &stalled_us) ==
		    1)
			ms -= (int64_t)(stalled_us / 1000);
		fclose(file);
	}
	return ms;
}

/* begun_ms: what own_ms said then. */
static inline bool is_within(int64_t begun_ms, int64_t limit_ms)
{
	return own_ms() - begun_ms < limit_ms;
}

#endif
