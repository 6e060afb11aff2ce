/* SPDX-License-Identifier: Apache-2.0 */
/* Flights and waiters by themselves: one flight per key, one wake per wait,
 * failures remembered for a second; and the table of objects. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/io.h"
#include "base/pool.h"
#include "dataset/blob.h"
#include "dataset/chunk.h"
#include "dataset/node.h"
#include "dataset/recent.h"

struct counted {
	struct waiter waiter; /* first */
	atomic_int woken;
};

static void count_wake(struct waiter *waiter)
{
	atomic_fetch_add(&((struct counted *)waiter)->woken, 1);
}

static struct node *open_node(uint32_t timeout_ms)
{
	struct node_options options = {.timeout_ms = timeout_ms};
	struct node *node;

	assert_int_equal(node_open(&options, &node, NULL), 0);
	return node;
}

static struct object_key key_of(unsigned n)
{
	struct object_key key = {.kind = OBJECT_RECIPE};

	digest_sha256(&n, sizeof(n), &key.digest);
	return key;
}

static bool wait_for(atomic_int *value, int wanted, unsigned ms)
{
	for (unsigned i = 0; i < ms && atomic_load(value) != wanted; i++)
		usleep(1000);
	return atomic_load(value) == wanted;
}

static void there_is_one_flight_for_a_key(void **state)
{
	struct node *node = open_node(1000);
	struct object_key key = key_of(1);
	struct flight *a, *b;
	bool is_new;

	(void)state;
	assert_null(flight_find(node->flights, &key));
	a = flight_get(node->flights, &key, &is_new);
	assert_true(is_new);
	b = flight_get(node->flights, &key, &is_new);
	assert_false(is_new);
	assert_ptr_equal(a, b);
	key.salt = 1;
	b = flight_find(node->flights, &key);
	assert_null(b);
	flight_finish(a, 0, NULL, NULL);
	flight_unref(a);
	flight_unref(a);
	assert_int_equal(flights_count(node->flights), 0);
	node_close(node);
}

static void a_failure_is_remembered_for_a_second(void **state)
{
	struct node *node = open_node(1000);
	struct object_key key = key_of(2);
	struct err err = {"broken"};
	struct flight *flight;
	bool is_new;

	(void)state;
	flight = flight_get(node->flights, &key, &is_new);
	flight_finish(flight, -EIO, &err, NULL);
	flight_unref(flight);
	flight = flight_get(node->flights, &key, &is_new);
	assert_false(is_new);
	assert_int_equal(flight_state(flight), FLIGHT_FAILED);
	assert_string_equal(flight->err.text, "broken");
	flight_unref(flight);
	usleep(1100000);
	flight = flight_get(node->flights, &key, &is_new);
	assert_true(is_new);
	flight_finish(flight, 0, NULL, NULL);
	flight_unref(flight);
	for (int i = 0; i < 300 && flights_count(node->flights); i++)
		usleep(10000);
	assert_int_equal(flights_count(node->flights), 0);
	node_close(node);
}

static void a_waiter_is_woken_once_all_have_ended(void **state)
{
	struct node *node = open_node(5000);
	struct counted waiter = {0};
	struct flight *flights[3];
	bool is_new;

	(void)state;
	waiter_init(&waiter.waiter, count_wake);
	assert_int_equal(waiter_begin(&waiter.waiter, NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct object_key key = key_of(10 + i);

		flights[i] = flight_get(node->flights, &key, &is_new);
		assert_int_equal(
			waiter_hold(&waiter.waiter, flight_ref(flights[i])), 0);
	}
	flight_finish(flights[0], 0, NULL, NULL);
	assert_int_equal(waiter_end(node, &waiter.waiter, DATASET_PARKED, NULL),
			 DATASET_PARKED);
	flight_finish(flights[1], -EIO, NULL, NULL);
	usleep(50000);
	assert_int_equal(waiter.woken, 0);
	flight_finish(flights[2], 0, NULL, NULL);
	assert_true(wait_for(&waiter.woken, 1, 2000));
	assert_int_equal(waiter_begin(&waiter.waiter, NULL), 0);
	/* All had ended already: woken all the same, never inside the call. */
	assert_int_equal(waiter_end(node, &waiter.waiter, DATASET_PARKED, NULL),
			 DATASET_PARKED);
	assert_true(wait_for(&waiter.woken, 2, 2000));
	waiter_release(&waiter.waiter);
	for (unsigned i = 0; i < 3; i++)
		flight_unref(flights[i]);
	node_close(node);
}

static void a_deadline_ends_the_wait_with_what_is_wrong(void **state)
{
	struct node *node = open_node(200);
	struct object_key key = key_of(20);
	struct counted waiter = {0};
	struct flight *flight;
	struct err err = {""};
	uint64_t start = now_ms();
	bool is_new;

	(void)state;
	waiter_init(&waiter.waiter, count_wake);
	flight = flight_get(node->flights, &key, &is_new);
	flight_trouble(flight, EACCES, "mirror-a: HTTP 403");
	assert_int_equal(waiter_hold(&waiter.waiter, flight_ref(flight)), 0);
	assert_int_equal(waiter_end(node, &waiter.waiter, DATASET_PARKED, NULL),
			 DATASET_PARKED);
	assert_true(wait_for(&waiter.woken, 1, 2000));
	assert_true(now_ms() - start >= 190);
	assert_int_equal(waiter_begin(&waiter.waiter, &err), -EACCES);
	assert_string_equal(err.text, "mirror-a: HTTP 403");
	waiter_release(&waiter.waiter);
	/* The flight ends later and touches nothing of the waiter's. */
	memset(&waiter.waiter, 0xAA, sizeof(waiter.waiter));
	flight_finish(flight, 0, NULL, NULL);
	flight_unref(flight);
	usleep(20000);
	assert_int_equal(waiter.woken, 1);
	node_close(node);
}

/* Flights that end while waiters time out, join and leave, all at once. */
struct storm {
	struct node *node;
	atomic_int stop;
};

static void *end_flights(void *arg)
{
	struct storm *storm = arg;

	for (unsigned i = 0; !atomic_load(&storm->stop); i++) {
		struct object_key key = key_of(1000 + i % 16);
		struct flight *flight = flight_find(storm->node->flights, &key);

		if (flight && flight_state(flight) == FLIGHT_RUNNING)
			flight_finish(flight, 0, NULL, NULL);
		flight_unref(flight);
	}
	return NULL;
}

static void *wait_for_flights(void *arg)
{
	struct storm *storm = arg;
	struct blocking_waiter *blocking = blocking_waiter_new();
	struct waiter *waiter = blocking_waiter_get(blocking);

	for (unsigned i = 0; i < 2000; i++) {
		waiter->timeout_ms = 1 + i % 3;
		(void)waiter_begin(waiter, NULL);
		for (unsigned n = 0; n < 3; n++) {
			struct object_key key = key_of(1000 + (i + n * 5) % 16);
			bool is_new;

			assert_int_equal(
				waiter_hold(waiter,
					    flight_get(storm->node->flights,
						       &key, &is_new)),
				0);
		}
		if (waiter_end(storm->node, waiter, DATASET_PARKED, NULL) ==
		    DATASET_PARKED)
			waiter_block(blocking);
		(void)waiter_begin(waiter, NULL);
		waiter_end(storm->node, waiter, 0, NULL);
	}
	blocking_waiter_free(blocking);
	return NULL;
}

static void ends_and_deadlines_may_meet(void **state)
{
	struct storm storm = {.node = open_node(1000)};
	pthread_t waiters[6], ender;

	(void)state;
	pthread_create(&ender, NULL, end_flights, &storm);
	for (int i = 0; i < 6; i++)
		pthread_create(&waiters[i], NULL, wait_for_flights, &storm);
	for (int i = 0; i < 6; i++)
		pthread_join(waiters[i], NULL);
	atomic_store(&storm.stop, 1);
	pthread_join(ender, NULL);
	for (int i = 0; i < 300 && flights_count(storm.node->flights); i++)
		usleep(10000);
	assert_int_equal(flights_count(storm.node->flights), 0);
	node_close(storm.node);
}

/* ---- the table */

static atomic_int freed;

static void count_free(struct object *object)
{
	atomic_fetch_add(&freed, 1);
	free(object);
}

static struct object *put_object(struct table *table, unsigned n, size_t cost)
{
	struct object *object = calloc(1, sizeof(*object));
	struct object_key key = key_of(n);

	object_init(object, &key, cost, count_free);
	table_put(table, object);
	return object;
}

/* Another struct of the same blob may be a target first: a reader that opened
 * it again found the flight before its maker had filled it. */
static void a_makers_blob_outlives_its_reader(void **state)
{
	struct dataset_options options = {
		.name = "d",
		.mirrors = (const char *const[]){"/nowhere"},
		.mirror_count = 1,
		.insecure = true,
	};
	const struct catalog_blob info = {.size = 10};
	const struct recipe_record record = {.length = 10};
	const struct blob_source source = {0};
	struct node *node = open_node(1000);
	struct object_key key = key_of(50);
	struct blob *first, *mine;
	struct dataset *dataset;
	struct flight *flight;
	struct chunk_job *job;
	bool is_new;

	(void)state;
	assert_int_equal(dataset_add(node, &options, &dataset, NULL), 0);
	assert_int_equal(blob_new(&key, &info, 1, &first), 0);
	assert_int_equal(blob_new(&key, &info, 1, &mine), 0);
	job = chunk_job_new(dataset, &source, FETCH_DEMAND, 1);
	flight = flight_get(node->flights, &key, &is_new);
	assert_true(flight_add_target(flight, first, 0, 0));
	chunk_job_add(job, flight, &record, mine, &source, 0, 0);
	assert_int_equal(mine->object.refs, 2);
	flight_finish(flight, -EIO, NULL, NULL);
	assert_int_equal(mine->object.refs, 1);
	blob_unref(first);
	blob_unref(mine);
	flight_unref(flight);
	job->count = 0;
	chunk_job_start(job);
	node_close(node);
}

/* The cache refused it, or has evicted it since. */
static void a_chunk_in_memory_is_given_again(void **state)
{
	const struct catalog_blob info = {.size = 10};
	struct node *node = open_node(1000);
	struct object_key key = key_of(51);
	struct flight_target target;
	struct flight *flight;
	struct blob *blob;
	bool is_new;

	(void)state;
	assert_int_equal(blob_new(&key, &info, 1, &blob), 0);
	flight = flight_get(node->flights, &key, &is_new);
	assert_true(flight_add_target(flight, blob, 0, 0));
	assert_false(flight_add_target(flight, blob, 0, 0));
	assert_true(flight_take_target(flight, &target));
	blob_unref(target.blob);
	assert_false(flight_add_target(flight, blob, 0, 0)); /* just now */
	flight->targets[0].given_ms -= 1000;
	atomic_store(&flight->puts, 1);
	assert_false(flight_add_target(flight, blob, 0, 0)); /* under way */
	atomic_store(&flight->puts, 0);
	assert_true(flight_add_target(flight, blob, 0, 0));
	assert_int_equal(flight->target_count, 1);
	assert_true(flight_take_target(flight, &target));
	assert_ptr_equal(target.blob, blob);
	blob_unref(target.blob);
	assert_false(flight_take_target(flight, &target));
	flight_finish(flight, -EIO, NULL, NULL);
	blob_unref(blob);
	flight_unref(flight);
	node_close(node);
}

/* Records take as long as the disk does; bytes it has are not kept for them. */
static void bytes_go_before_the_record(void **state)
{
	struct node *node = open_node(1000);
	struct object_key key = key_of(52);
	struct flight *flight, *reader, *again;
	bool is_new;

	(void)state;
	key.kind = OBJECT_CHUNK;
	flight = flight_get(node->flights, &key, &is_new);
	flight->length = 1u << 20;
	flight->plain = pool_get(node->pool, flight->length);
	atomic_store(&flight->puts, 2); /* the verifier, and a record */
	atomic_store(&flight->gives, 1);
	flight_ref(flight); /* the record's */
	flight_finish(flight, 0, NULL, NULL);
	reader = flight_get(node->flights, &key, &is_new);
	assert_ptr_equal(reader, flight);
	assert_true(flight_awaits_record(node->flights, &key));

	flight_unref(flight_ref(flight));
	assert_non_null(flight->plain); /* it is being given */
	atomic_store(&flight->gives, 0);
	atomic_fetch_sub(&flight->puts, 1);
	flight_unref(flight);		/* the verifier */
	assert_non_null(flight->plain); /* a reader has it */
	flight_begin_give(flight);
	flight_unref(flight_ref(flight));
	flight_unref(reader);
	assert_non_null(flight->plain); /* given late, and lost */
	atomic_fetch_sub(&flight->gives, 1);
	flight_unref(flight_ref(flight));
	assert_null(flight->plain);
	assert_true(flight_awaits_record(node->flights, &key));

	/* The cache has it, but a new reader may ask for it elsewhere. */
	assert_null(flight_find(node->flights, &key));
	again = flight_get(node->flights, &key, &is_new);
	assert_true(is_new);
	flight_finish(again, -EIO, NULL, NULL);
	flight_unref(again);
	atomic_fetch_sub(&flight->puts, 1);
	flight_unref(flight);
	node_close(node);
}

static void the_table_keeps_to_its_limit(void **state)
{
	struct table *table = table_new(100000);
	struct object *held = put_object(table, 0, 1000), *found;
	struct object_key key;
	unsigned kept = 0;

	(void)state;
	atomic_store(&freed, 0);
	for (unsigned i = 1; i < 1000; i++)
		object_unref(put_object(table, i, 1000));
	for (unsigned i = 0; i < 1000; i++) {
		key = key_of(i);
		found = table_get(table, &key);
		kept += found != NULL;
		object_unref(found);
	}
	assert_true(kept >= 90 && kept <= 110);
	/* A large one may stay alone. */
	object_unref(put_object(table, 5000, 1000000));
	key = key_of(5000);
	found = table_get(table, &key);
	assert_non_null(found);
	object_unref(found);
	assert_true(freed >= 990);
	object_unref(held);
	table_free(table);
	assert_int_equal(freed, 1001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_is_one_flight_for_a_key),
		cmocka_unit_test(a_failure_is_remembered_for_a_second),
		cmocka_unit_test(a_waiter_is_woken_once_all_have_ended),
		cmocka_unit_test(a_deadline_ends_the_wait_with_what_is_wrong),
		cmocka_unit_test(ends_and_deadlines_may_meet),
		cmocka_unit_test(a_makers_blob_outlives_its_reader),
		cmocka_unit_test(a_chunk_in_memory_is_given_again),
		cmocka_unit_test(bytes_go_before_the_record),
		cmocka_unit_test(the_table_keeps_to_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
