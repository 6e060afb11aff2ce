/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare two files by random reads, as fsx does with one: many threads, each
 * with its own descriptor or all on one, pread and mmap mixed, ranges that
 * begin and end anywhere, also at and behind the end.
 *
 *   random-reads [-s SEED] [-n READS] [-t THREADS] [-1] RIGHT OTHER
 *
 * -1: one descriptor for all threads. The seed is printed: the same seed makes
 * the same reads.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#define LEN_MAX (1u << 20)
#define THREADS_MAX 256

static uint64_t seed, reads = 1000, size;
static const uint8_t *right;
static const char *path;
static int shared_fd = -1;

/* splitmix64 */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Mostly short, sometimes long; mostly inside, sometimes over the end. */
static void choose(uint64_t *state, uint64_t *ret_offset, size_t *ret_len)
{
	unsigned bits = (unsigned)(next(state) % 21);

	*ret_len = (size_t)(next(state) % ((UINT64_C(1) << bits) + 1));
	*ret_offset = next(state) % (size + 1);
	if (next(state) % 16 == 0)
		*ret_offset =
			size - next(state) % (size < 4096 ? size + 1 : 4096);
	if (next(state) % 64 == 0)
		*ret_offset = size + next(state) % 100000;
}

static int compare(const uint8_t *seen, uint64_t offset, size_t len,
		   const char *how)
{
	for (size_t i = 0; i < len; i++)
		if (seen[i] != right[offset + i]) {
			fprintf(stderr,
				"%s: %s of %zu at %llu: byte %zu is %02x, not %02x\n",
				path, how, len, (unsigned long long)offset, i,
				seen[i], right[offset + i]);
			return -1;
		}
	return 0;
}

static int try_pread(int fd, uint8_t *buf, uint64_t offset, size_t len)
{
	uint64_t left = offset < size ? size - offset : 0;
	size_t want = left < len ? (size_t)left : len;
	ssize_t n = pread(fd, buf, len, (off_t)offset);

	if (n < 0 || (size_t)n != want) {
		fprintf(stderr, "%s: pread of %zu at %llu: %zd (%s), not %zu\n",
			path, len, (unsigned long long)offset, n,
			n < 0 ? strerror(errno) : "short", want);
		return -1;
	}
	return compare(buf, offset, want, "pread");
}

static int try_mmap(int fd, uint64_t offset, size_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = offset / page * page;
	uint8_t *map;
	int r;

	if (offset >= size || len == 0)
		return 0;
	if (len > size - offset)
		len = (size_t)(size - offset);
	map = mmap(NULL, (size_t)(offset - start) + len, PROT_READ, MAP_PRIVATE,
		   fd, (off_t)start);
	if (map == MAP_FAILED) {
		perror("mmap");
		return -1;
	}
	r = compare(map + (offset - start), offset, len, "mmap");
	munmap(map, (size_t)(offset - start) + len);
	return r;
}

static void *run(void *arg)
{
	uint64_t state = seed + (uint64_t)(uintptr_t)arg * 1000003;
	int fd = shared_fd >= 0 ? shared_fd : open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *buf = malloc(LEN_MAX + 1);
	int r = fd < 0 || !buf ? -1 : 0;

	for (uint64_t i = 0; i < reads && r == 0; i++) {
		uint64_t offset;
		size_t len;

		choose(&state, &offset, &len);
		r = next(&state) % 4 ? try_pread(fd, buf, offset, len) :
				       try_mmap(fd, offset, len);
	}
	if (fd >= 0 && fd != shared_fd)
		close(fd);
	free(buf);
	return r == 0 ? NULL : (void *)-1;
}

static const uint8_t *map_right(const char *name)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	size = (uint64_t)st.st_size;
	map = size ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) :
		     (void *)"";
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	uint64_t count = 4;
	bool is_shared = false;
	int c, r = 0;

	seed = (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
	while ((c = getopt(argc, argv, "s:n:t:1")) != -1)
		if (c == '1')
			is_shared = true;
		else if (c == '?' || parse_u64(optarg, c == 's' ? &seed :
						       c == 'n' ? &reads :
								  &count) < 0)
			return 2;
	if (optind + 2 != argc || count < 1 || count > THREADS_MAX)
		return 2;
	right = map_right(argv[optind]);
	path = argv[optind + 1];
	if (!right) {
		perror(argv[optind]);
		return 1;
	}
	if (is_shared)
		shared_fd = open(path, O_RDONLY | O_CLOEXEC);
	printf("random-reads: seed %llu\n", (unsigned long long)seed);
	for (uint64_t i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, run,
				   (void *)(uintptr_t)i))
			return 1;
	for (uint64_t i = 0; i < count; i++) {
		void *result;

		pthread_join(threads[i], &result);
		r |= result != NULL;
	}
	return r;
}
