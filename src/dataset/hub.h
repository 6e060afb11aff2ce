/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_HUB_H
#define LARDER_DATASET_HUB_H

#include "dataset/blob.h"
#include "dataset/tries.h"
#include "source/source.h"

/*
 * A dataset that is a repository of the Hugging Face Hub. Its one mirror is
 * the endpoint; its head and catalog are made here from the Hub's listing and
 * kept in the cache like those of a mirror, so that whoever has them asks
 * nobody again. Its blobs are by reference.
 */
struct hub {
	char *source;	      /* as typed */
	struct hub_repo repo;
	char *token, *token_file;
	struct hub_rules rules;
	bool is_offline, is_followed;

	pthread_mutex_t lock; /* guards all below */
	/* Catalogs that no cache took. */
	struct object **pinned;
	size_t pinned_count;
	/* Its branches and tags, as hub_refs_parse gives them. */
	struct buf refs;
	bool has_looked_for_refs; /* in the cache */
	uint64_t refs_until_ms;	  /* not asked for before that */
};

int hub_new(const struct hub_options *options, struct hub **ret,
	    struct err *err);
void hub_free(struct hub *hub);
/* Of a revision, in the cache: keep one; whether there is one. */
void hub_head_keep(const struct dataset *dataset, const char *revision,
		   const struct head *head);
bool hub_head_load(const struct dataset *dataset, const char *revision,
		   struct head *ret);
/* Its branches and tags in the cache: text. An error: none. */
int hub_refs_keep(const struct dataset *dataset, const struct buf *text);
int hub_refs_load(const struct dataset *dataset, struct buf *ret);
/* Who lists this commit: as flight_get. Its head is in the cache then. */
struct flight *hub_listing_flight(const struct dataset *dataset,
				  const char *commit, bool *ret_is_new);
/* The job that ends the flight of the dataset's head. */
void hub_open_start(struct dataset *dataset, struct flight *flight,
		    bool is_asked);
/* A catalog that nobody else can give. The caller holds no reference yet. */
void hub_pin(struct hub *hub, struct object *object);

/* "Bearer ...", or NULL: no token. malloc. The file is read each time: tokens
 * are renewed under running mounts. */
char *hub_authorization(struct hub *hub);

/*
 * A request to the Hub itself was refused for now: nobody of this process asks
 * before that time is over. Returns how long that is from now, in words.
 */
void hub_pause(struct node *node, uint32_t ms);
/* Milliseconds left of the pause; 0: ask. */
uint32_t hub_paused_ms(struct node *node);
/* -errnum, for who does not wait so long. */
int hub_pause_error(uint32_t ms, int errnum, struct err *err);

/* Why the Hub did not answer well. Frees nothing. */
enum fetch_class hub_failure(struct dataset *dataset,
			     const struct hub_repo *repo,
			     const struct fetch_request *request,
			     bool has_token, struct err *ret_err, int *ret);

/* ---- files (location.c) */

/* Where a file's bytes are, signed and for a while. */
struct location {
	struct object object;
	struct origin *origin; /* NULL: the Hub itself sends them */
	char *target;	       /* below it, escaped */
	uint32_t generation;   /* of the blob's location */
	int64_t expires;       /* seconds since 1970 */
};
/*
 * The location that holds now. One request whoever waits, no retry: the caller
 * goes over that. *ret_class says why it failed.
 */
int location_get(struct dataset *dataset, struct blob *blob,
		 struct waiter *waiter, struct location **ret,
		 enum fetch_class *ret_class, struct err *err);
/* It was refused: the next location_get asks anew. */
void location_void(struct node *node, struct blob *blob,
		   const struct location *location);

#endif
