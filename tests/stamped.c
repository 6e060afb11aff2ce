/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files whose every byte says where it belongs.
 *
 *   stamped write ID SIZE FILE [OFFSET...]
 *   stamped check [OPTION...] ID SIZE FILE
 *     -b BYTES     read so much at a time (default 128 KiB)
 *     -t THREADS   that many at once, each the whole file
 *     -d           while another thread drops the file's pages again and again
 *     -o OFFSET    read once around here instead, BYTES from half before it
 *     -s           the file is sparse: zeros are fine
 *
 * A cell is 16 bytes: the tag, then its offset, both big-endian. With OFFSETs
 * the file is sparse: data only within 64 KiB of each of them and of the end.
 *
 * The checker says what it saw: a shifted cell, one of another file, zeros,
 * an early or late end, an error. A plain hash could not.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"

#define CELL 16u
#define PART (1u << 20)
#define WINDOW (64u << 10)

static uint64_t id, size;
static const char *path;
static size_t block = 128u << 10;
static bool is_sparse_ok;
static atomic_bool is_over;

static void put_be64(uint8_t *p, uint64_t value)
{
	for (int i = 7; i >= 0; i--, value >>= 8)
		p[i] = (uint8_t)value;
}

static uint64_t get_be64(const uint8_t *p)
{
	uint64_t value = 0;

	for (int i = 0; i < 8; i++)
		value = value << 8 | p[i];
	return value;
}

/* The cells that cover [offset, offset + len), from the first one's start. */
static void fill(uint8_t *to, uint64_t offset, size_t len)
{
	uint64_t at = offset / CELL * CELL;

	for (; at < offset + len; at += CELL, to += CELL) {
		put_be64(to, id);
		put_be64(to + 8, at);
	}
}

/* ---- writing */

static int write_range(int fd, uint64_t start, uint64_t end)
{
	static uint8_t part[PART + CELL];

	start = start / CELL * CELL;
	for (; start < end; start += PART) {
		size_t len = end - start < PART ? (size_t)(end - start) : PART;

		fill(part, start, len);
		if (pwrite_full(fd, part, len, start) < 0)
			return -1;
	}
	return 0;
}

static int cmd_write(int argc, char **argv)
{
	int fd, r = 0;

	if (argc < 4 || parse_u64(argv[1], &id) < 0 ||
	    parse_u64(argv[2], &size) < 0)
		return 2;
	fd = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		perror(argv[3]);
		return 1;
	}
	if (argc == 4)
		r = write_range(fd, 0, size);
	for (int i = 4; i < argc && r == 0; i++) {
		uint64_t at, start, end;

		if (parse_u64(argv[i], &at) < 0)
			return 2;
		start = at > WINDOW ? at - WINDOW : 0;
		end = at + WINDOW < size ? at + WINDOW : size;
		r = write_range(fd, start, end);
	}
	if (argc > 4 && r == 0)
		r = write_range(fd, size > WINDOW ? size - WINDOW : 0, size);
	if (r < 0 || close(fd) < 0) {
		perror(argv[3]);
		return 1;
	}
	return 0;
}

/* ---- checking */

static bool is_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

static void complain(uint64_t at, const uint8_t *seen)
{
	uint64_t tag = get_be64(seen), offset = get_be64(seen + 8);

	if (is_zero(seen, CELL))
		fprintf(stderr, "%s: zeros at %llu\n", path,
			(unsigned long long)at);
	else if (tag != id)
		fprintf(stderr, "%s: foreign bytes at %llu (tag %llx)\n", path,
			(unsigned long long)at, (unsigned long long)tag);
	else
		fprintf(stderr, "%s: at %llu stands what belongs at %llu\n",
			path, (unsigned long long)at,
			(unsigned long long)offset);
}

/* len bytes that were read at offset. */
static int check_bytes(const uint8_t *seen, uint64_t offset, size_t len)
{
	uint8_t want[CELL];

	while (len > 0) {
		size_t skip = (size_t)(offset % CELL);
		size_t n = CELL - skip < len ? CELL - skip : len;

		fill(want, offset, 1);
		if (memcmp(seen, want + skip, n) &&
		    !(is_sparse_ok && is_zero(seen, n))) {
			if (n == CELL)
				complain(offset, seen);
			else
				fprintf(stderr, "%s: wrong bytes at %llu\n",
					path, (unsigned long long)offset);
			return -1;
		}
		seen += n;
		offset += n;
		len -= n;
	}
	return 0;
}

/* One pread, which must give all there is: a short answer before the end of
 * the file is the fault this program looks for. */
static int check_read(int fd, uint8_t *buf, uint64_t offset, size_t len)
{
	uint64_t left = offset < size ? size - offset : 0;
	size_t want = left < len ? (size_t)left : len;
	ssize_t n = pread(fd, buf, len, (off_t)offset);

	if (n < 0) {
		fprintf(stderr, "%s: at %llu: %s\n", path,
			(unsigned long long)offset, strerror(errno));
		return -1;
	}
	if ((size_t)n != want) {
		fprintf(stderr, "%s: %zd bytes at %llu instead of %zu\n", path,
			n, (unsigned long long)offset, want);
		return -1;
	}
	return check_bytes(buf, offset, want);
}

static void *check_all(void *unused)
{
	uint8_t *buf = malloc(block);
	int fd = open(path, O_RDONLY | O_CLOEXEC), r = -1;
	uint64_t at = 0;

	(void)unused;
	if (fd < 0 || !buf)
		perror(path);
	else
		do
			r = check_read(fd, buf, at, block);
		while (r == 0 && (at += block) <= size);
	if (fd >= 0)
		close(fd);
	free(buf);
	return r == 0 ? NULL : (void *)-1;
}

static void *drop_pages(void *unused)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	(void)unused;
	while (fd >= 0 && !is_over) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		usleep(500);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static int check_with_threads(unsigned count, bool drops)
{
	pthread_t threads[256], dropper;
	int r = 0;

	if (drops && pthread_create(&dropper, NULL, drop_pages, NULL))
		return 1;
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, check_all, NULL))
			return 1;
	for (unsigned i = 0; i < count; i++) {
		void *result;

		pthread_join(threads[i], &result);
		r |= result != NULL;
	}
	is_over = true;
	if (drops)
		pthread_join(dropper, NULL);
	return r;
}

static int check_around(uint64_t offset)
{
	uint64_t start = offset > block / 2 ? offset - block / 2 : 0;
	uint8_t *buf = malloc(block);
	int fd = open(path, O_RDONLY | O_CLOEXEC), r = 1;

	if (fd < 0 || !buf)
		perror(path);
	else
		r = check_read(fd, buf, start, block) < 0;
	if (fd >= 0)
		close(fd);
	free(buf);
	return r;
}

static int cmd_check(int argc, char **argv)
{
	uint64_t number, threads = 1, around = 0;
	bool drops = false, has_around = false;
	int c;

	while ((c = getopt(argc, argv, "b:t:do:s")) != -1) {
		if (c == 'd')
			drops = true;
		else if (c == 's')
			is_sparse_ok = true;
		else if (c == '?' || parse_u64(optarg, &number) < 0)
			return 2;
		else if (c == 'b')
			block = (size_t)number;
		else if (c == 't')
			threads = number;
		else
			around = number, has_around = true;
	}
	if (optind + 3 != argc || parse_u64(argv[optind], &id) < 0 ||
	    parse_u64(argv[optind + 1], &size) < 0 || block == 0 ||
	    threads < 1 || threads > 256)
		return 2;
	path = argv[optind + 2];
	if (has_around)
		return check_around(around);
	return check_with_threads((unsigned)threads, drops);
}

int main(int argc, char **argv)
{
	int r = 2;

	if (argc > 1 && !strcmp(argv[1], "write"))
		r = cmd_write(argc - 1, argv + 1);
	else if (argc > 1 && !strcmp(argv[1], "check"))
		r = cmd_check(argc - 1, argv + 1);
	if (r == 2)
		fputs("usage: stamped write|check ... (see the source)\n",
		      stderr);
	return r;
}
