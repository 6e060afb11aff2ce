/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readahead against what real programs read (tests/record-trace.sh): how much
 * is fetched for what they need, how often they wait, and that who looks here
 * and there is not run ahead of.
 */
#include <config.h>

#undef NDEBUG
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "data.h"
#include "dataset/readahead.h"

#define BLOBS_MAX 64
#define CHUNKS_MAX 512
/* As one request has at most. */
#define REQUEST_BYTES (8u << 20)

struct sim_blob {
	uint64_t bytes;
	unsigned count;
	uint64_t ends[CHUNKS_MAX];
	bool needed[CHUNKS_MAX], fetched[CHUNKS_MAX];
	struct readahead state;
};

struct sim {
	struct sim_blob blobs[BLOBS_MAX];
	uint64_t read_bytes, needed_bytes, fetched_bytes, ahead_bytes;
	unsigned reads, waits, requests;
};

/* Chunks as content cuts them: 256 KiB to 4 MiB, about 1 MiB, the same each
 * time. */
static void cut(struct sim_blob *blob, unsigned seed)
{
	uint64_t at = 0, x = seed * 7919u + 1;

	for (blob->count = 0; at < blob->bytes; blob->count++) {
		uint64_t len = 256u << 10;

		do {
			x = x * 6364136223846793005u + 1442695040888963407u;
			len += 128u << 10;
		} while (len < 4u << 20 && (x >> 33) % 7 != 0);
		at += len;
		if (at > blob->bytes)
			at = blob->bytes;
		assert_true(blob->count < CHUNKS_MAX);
		blob->ends[blob->count] = at;
	}
}

static uint64_t length_of(const struct sim_blob *blob, unsigned i)
{
	return blob->ends[i] - (i ? blob->ends[i - 1] : 0);
}

/* Chunks of [start, end) that are missing come at once; the requests. */
static unsigned fetch(struct sim *sim, struct sim_blob *blob, uint64_t start,
		      uint64_t end, bool is_needed)
{
	uint64_t bytes = 0, at = 0;

	for (unsigned i = 0; i < blob->count; at = blob->ends[i++]) {
		if (blob->ends[i] <= start || at >= end)
			continue;
		if (is_needed && !blob->needed[i]) {
			blob->needed[i] = true;
			sim->needed_bytes += length_of(blob, i);
		}
		if (blob->fetched[i])
			continue;
		blob->fetched[i] = true;
		bytes += length_of(blob, i);
	}
	sim->fetched_bytes += bytes;
	if (!is_needed)
		sim->ahead_bytes += bytes;
	return (unsigned)((bytes + REQUEST_BYTES - 1) / REQUEST_BYTES);
}

static void run_read(struct sim *sim, struct sim_blob *blob, uint64_t start,
		     uint64_t length, bool ends_file)
{
	const struct readahead_read read = {
		.start = start,
		.end = start + length,
		.blob_bytes = blob->bytes,
		.ends_file = ends_file,
		.window_max = READAHEAD_WINDOW_MAX,
	};
	unsigned n = fetch(sim, blob, start, start + length, true);

	sim->reads++;
	sim->read_bytes += length;
	sim->waits += n > 0;
	sim->requests += n;
	if (readahead_note(&blob->state, &read, &start, &length))
		sim->requests += fetch(sim, blob, start, length, false);
}

static void run_line(struct sim *sim, const char *line)
{
	uint64_t number, a, b;
	unsigned ends_file;

	if (sscanf(line, "blob %" SCNu64 " %" SCNu64, &number, &a) == 2) {
		assert_true(number < BLOBS_MAX);
		sim->blobs[number].bytes = a;
		cut(&sim->blobs[number], (unsigned)number);
	} else if (sscanf(line, "read %" SCNu64 " %" SCNu64 " %" SCNu64 " %u",
			  &number, &a, &b, &ends_file) == 4) {
		assert_true(number < BLOBS_MAX);
		assert_true(a + b <= sim->blobs[number].bytes);
		run_read(sim, &sim->blobs[number], a, b, ends_file);
	} else {
		assert_true(line[0] == '#' || line[0] == '\0');
	}
}

static struct sim sim;

static void run_trace(const char *name)
{
	char path[64];
	size_t len;
	char *text;

	memset(&sim, 0, sizeof(sim));
	snprintf(path, sizeof(path), "traces/%s.txt", name);
	text = data_read(path, &len);
	for (size_t at = 0; at < len;) {
		char line[128];
		char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - (text + at)) : len - at;

		assert_true(n < sizeof(line));
		memcpy(line, text + at, n);
		line[n] = '\0';
		run_line(&sim, line);
		at += n + 1;
	}
	free(text);
	assert_true(sim.reads > 0);
}

/* percent: of what is needed, at most so much is fetched. waits, requests: at
 * most. is_ahead: anything is fetched ahead at all. */
static const struct {
	const char *name;
	unsigned percent, waits, requests;
	bool is_ahead;
} expected[] = {
	{"safetensors", 100, 8, 24, true},
	{"torch-zip", 100, 8, 24, true},
	{"tar-stream", 100, 8, 24, true},
	{"cp-r", 100, 3, 8, true},
	{"parquet-column", 100, 9, 9, false},
	{"first-4k", 100, 30, 30, false},
	{"random-100k", 100, 200, 200, false},
	{"mmap-random", 100, 200, 200, false},
	{"file-first-blocks", 100, 90, 100, true},
};

static void programs_get_what_they_need(void **state)
{
	bool is_bad = false;

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		unsigned percent;

		run_trace(expected[i].name);
		percent =
			(unsigned)(sim.fetched_bytes * 100 / sim.needed_bytes);
		print_message("%s: %u reads of %" PRIu64 " KiB, %u %% of the "
			      "chunks, %u waits, %u requests, ahead %" PRIu64
			      " KiB\n",
			      expected[i].name, sim.reads, sim.read_bytes >> 10,
			      percent, sim.waits, sim.requests,
			      sim.ahead_bytes >> 10);
		is_bad |= percent > expected[i].percent ||
			  sim.waits > expected[i].waits ||
			  sim.requests > expected[i].requests ||
			  (sim.ahead_bytes > 0) != expected[i].is_ahead;
	}
	assert_false(is_bad);
}

/* A chunk of a file at most for each look at its beginning. */
static void first_blocks_take_one_chunk(void **state)
{
	unsigned files = 0, chunks = 0;

	(void)state;
	run_trace("first-4k");
	for (unsigned i = 0; i < BLOBS_MAX; i++) {
		files += sim.blobs[i].bytes > 0;
		for (unsigned n = 0; n < sim.blobs[i].count; n++)
			chunks += sim.blobs[i].fetched[n];
	}
	assert_int_equal(files, 30);
	assert_int_equal(chunks, files);
}

/* Whole chunks for small reads: the price of their size, and no more. */
static void random_reads_cost_their_chunks(void **state)
{
	(void)state;
	run_trace("random-100k");
	assert_int_equal(sim.ahead_bytes, 0);
	assert_true(sim.fetched_bytes <= 15 * sim.read_bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_get_what_they_need),
		cmocka_unit_test(first_blocks_take_one_chunk),
		cmocka_unit_test(random_reads_cost_their_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
