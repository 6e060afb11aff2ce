/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link of a given length and width, for benchmarks on one machine: passes
 * TCP connections on, each direction late by half a round trip, and what the
 * server sends no faster than a rate that all connections share.
 *
 *	delay-proxy PORT-FILE TO-PORT ROUND-TRIP-MS [BYTES-PER-SECOND]
 *
 * Two threads for each direction of a connection: one reads and notes when the
 * bytes are due, one writes them then.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES 65536u
/* What the link holds: more would be a queue of its own. */
#define QUEUE_BYTES (8u << 20)
#define SLICE_BYTES 16384u

static uint64_t delay_ns, rate, next_slot_ns;
static pthread_mutex_t rate_lock = PTHREAD_MUTEX_INITIALIZER;

struct piece {
	struct piece *next;
	uint64_t due_ns;
	size_t len;
	char data[PIECE_BYTES];
};

struct direction {
	int from, to;
	bool is_shaped;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	struct piece *first, **last;
	size_t queued;
	bool is_ended, is_broken;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000u),
			      (long)(ns % 1000000000u)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL))
		;
}

/* The shared width: everybody's bytes one after another. */
static void take_slot(size_t bytes)
{
	uint64_t now, start;

	if (!rate)
		return;
	pthread_mutex_lock(&rate_lock);
	now = now_ns();
	start = next_slot_ns > now ? next_slot_ns : now;
	next_slot_ns = start + bytes * 1000000000u / rate;
	pthread_mutex_unlock(&rate_lock);
	if (start > now)
		sleep_until(start);
}

static void *read_side(void *arg)
{
	struct direction *direction = arg;

	for (;;) {
		struct piece *piece = malloc(sizeof(*piece));
		ssize_t n = piece ? recv(direction->from, piece->data,
					 PIECE_BYTES, 0) :
				    -1;

		pthread_mutex_lock(&direction->lock);
		while (n > 0 && direction->queued > QUEUE_BYTES &&
		       !direction->is_broken)
			pthread_cond_wait(&direction->changed,
					  &direction->lock);
		if (n <= 0 || direction->is_broken) {
			direction->is_ended = true;
			pthread_cond_broadcast(&direction->changed);
			pthread_mutex_unlock(&direction->lock);
			free(piece);
			return NULL;
		}
		piece->len = (size_t)n;
		piece->due_ns = now_ns() + delay_ns;
		piece->next = NULL;
		*direction->last = piece;
		direction->last = &piece->next;
		direction->queued += piece->len;
		pthread_cond_broadcast(&direction->changed);
		pthread_mutex_unlock(&direction->lock);
	}
}

static struct piece *take_piece(struct direction *direction)
{
	struct piece *piece;

	pthread_mutex_lock(&direction->lock);
	while (!direction->first && !direction->is_ended)
		pthread_cond_wait(&direction->changed, &direction->lock);
	piece = direction->first;
	if (piece) {
		direction->first = piece->next;
		if (!direction->first)
			direction->last = &direction->first;
		direction->queued -= piece->len;
		pthread_cond_broadcast(&direction->changed);
	}
	pthread_mutex_unlock(&direction->lock);
	return piece;
}

static bool send_piece(struct direction *direction, const struct piece *piece)
{
	for (size_t at = 0; at < piece->len;) {
		size_t left = piece->len - at;
		ssize_t n;

		if (left > SLICE_BYTES)
			left = SLICE_BYTES;
		if (direction->is_shaped)
			take_slot(left);
		n = send(direction->to, piece->data + at, left, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static void *write_side(void *arg)
{
	struct direction *direction = arg;
	struct piece *piece;

	while ((piece = take_piece(direction))) {
		bool is_sent;

		sleep_until(piece->due_ns);
		is_sent = send_piece(direction, piece);
		free(piece);
		if (is_sent)
			continue;
		pthread_mutex_lock(&direction->lock);
		direction->is_broken = true;
		pthread_cond_broadcast(&direction->changed);
		pthread_mutex_unlock(&direction->lock);
		shutdown(direction->from, SHUT_RDWR);
		break;
	}
	shutdown(direction->to, SHUT_WR);
	return NULL;
}

static struct direction *direction_new(int from, int to, bool is_shaped)
{
	struct direction *direction = calloc(1, sizeof(*direction));

	direction->from = from;
	direction->to = to;
	direction->is_shaped = is_shaped;
	direction->last = &direction->first;
	pthread_mutex_init(&direction->lock, NULL);
	pthread_cond_init(&direction->changed, NULL);
	return direction;
}

/* What is left when a connection ends is a benchmark's: little. */
static void *carry(void *arg)
{
	int *fds = arg;
	struct direction *there = direction_new(fds[0], fds[1], false);
	struct direction *back = direction_new(fds[1], fds[0], true);
	pthread_t threads[4];

	pthread_create(&threads[0], NULL, read_side, there);
	pthread_create(&threads[1], NULL, write_side, there);
	pthread_create(&threads[2], NULL, read_side, back);
	pthread_create(&threads[3], NULL, write_side, back);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	close(fds[0]);
	close(fds[1]);
	free(there);
	free(back);
	free(fds);
	return NULL;
}

static struct sockaddr_in loopback(unsigned port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static void accept_one(int listener, unsigned to_port)
{
	struct sockaddr_in to = loopback(to_port);
	int *fds = malloc(2 * sizeof(*fds)), one = 1;
	pthread_t thread;

	if (!fds)
		exit(1);
	fds[0] = accept(listener, NULL, NULL);
	fds[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (fds[0] < 0 || fds[1] < 0 ||
	    connect(fds[1], (struct sockaddr *)&to, sizeof(to)) < 0) {
		close(fds[0]);
		close(fds[1]);
		free(fds);
		return;
	}
	for (int i = 0; i < 2; i++)
		setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (pthread_create(&thread, NULL, carry, fds) != 0)
		exit(1);
	pthread_detach(thread);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = loopback(0);
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	FILE *file;

	if (argc < 4)
		return 2;
	delay_ns = strtoull(argv[3], NULL, 10) * 500000u;
	rate = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	signal(SIGPIPE, SIG_IGN);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(listener, 128) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &len) < 0)
		return 1;
	file = fopen(argv[1], "w");
	if (!file)
		return 1;
	fprintf(file, "%u\n", ntohs(at.sin_port));
	fclose(file);
	for (;;)
		accept_one(listener, (unsigned)strtoul(argv[2], NULL, 10));
}
