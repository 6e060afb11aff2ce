/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death at the named points of larder-crash, as by kill -9.
 *
 *   LARDER_CRASH=NAME[:COUNT]  the COUNTth time NAME is passed (default: 1)
 *   LARDER_CRASH=~N:SEED       at each point with a chance of one in N
 *   LARDER_CRASH_LOG=FILE      the name of the point is appended
 */
#include <config.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/text.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *wanted;
static size_t wanted_len;
static uint64_t number = 1, chance;
static _Atomic uint64_t passed;

static void read_environment(void)
{
	const char *colon;

	wanted = getenv("LARDER_CRASH");
	if (!wanted)
		return;
	colon = strchr(wanted, ':');
	wanted_len = colon ? (size_t)(colon - wanted) : strlen(wanted);
	if (colon && parse_u64(colon + 1, &number) < 0)
		abort();
	if (wanted[0] == '~') {
		char text[24] = "";

		if (wanted_len - 1 >= sizeof(text))
			abort();
		memcpy(text, wanted + 1, wanted_len - 1);
		if (parse_u64(text, &chance) < 0 || chance == 0)
			abort();
	}
}

static void die(const char *name)
{
	const char *log = getenv("LARDER_CRASH_LOG");
	int fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			    0600) :
		       -1;

	if (fd >= 0) {
		(void)!write(fd, name, strlen(name));
		(void)!write(fd, "\n", 1);
	}
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* splitmix64 of the seed and how many points were passed */
static uint64_t draw(uint64_t count)
{
	uint64_t z = number + count * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

void crash_point(const char *name)
{
	pthread_once(&once, read_environment);
	if (!wanted)
		return;
	if (chance > 0) {
		if (draw(atomic_fetch_add(&passed, 1)) % chance == 0)
			die(name);
		return;
	}
	if (strlen(name) == wanted_len && !memcmp(name, wanted, wanted_len) &&
	    atomic_fetch_add(&passed, 1) + 1 == number)
		die(name);
}
