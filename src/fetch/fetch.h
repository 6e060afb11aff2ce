/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_FETCH_H
#define LARDER_FETCH_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Bytes of a path below an origin, whatever it takes. One thread owns the curl
 * multi handle; files are read by a small pool. Which origin is asked next is
 * the caller's decision, helped by the pure functions below.
 */
struct fetcher;
struct origin;

struct fetcher_options {
	/* Until a connection stands; 0: 5,000. */
	uint32_t connect_timeout_ms;
	/* No byte for so long, or under 1 KiB/s meanwhile: given up; 0: 10,000. */
	uint32_t silence_timeout_ms;
	/* Requests at a time over HTTP: of one origin, 0: 16; of all, 0: 64,
	 * though two of each may always run: servers that hang must not hold
	 * up those that do not. Readahead may use 7/8 of them and prefetch
	 * 1/2, so that a demand finds one. */
	uint32_t max_connections, max_all_connections;
	/* Transfers of a prefetch stand still for so long after a reader's
	 * bytes, 0: 250, and at a stretch, 0: 1,000. */
	uint32_t hold_ms, hold_max_ms;
	const char *proxy;   /* NULL: environment; "": none */
	const char *ca_file; /* NULL: the system's */
	/* The client's certificate, in PEM, and its key if that is in another
	 * file. Shown to origins, not where they redirect to. */
	const char *cert_file, *cert_key_file;
	/* For whole files of servers without ranges, up to 1 GiB; nameless
	 * files. NULL: /var/tmp. */
	const char *spool_dir;
};

/* NULL: all defaults. */
int fetcher_open(const struct fetcher_options *options, struct fetcher **ret,
		 struct err *err);
/* Cancels what is under way (done is called with -ECANCELED) and joins. What
 * done starts meanwhile is canceled too. Origins may be closed before or
 * after. */
void fetcher_close(struct fetcher *fetcher);

/*
 * What an s3:// URL leaves open. NULL, "" and 0: what the environment says
 * (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_PROFILE and their
 * like), else Amazon's, us-east-1 and ~/.aws/credentials if it is there.
 */
enum s3_path_style {
	S3_PATH_STYLE_AUTO, /* not at Amazon, or where the name needs it */
	S3_PATH_STYLE_YES,  /* https://ENDPOINT/BUCKET */
	S3_PATH_STYLE_NO,   /* https://BUCKET.ENDPOINT */
};
struct origin_options {
	const char *s3_endpoint;
	const char *s3_region;
	const char *s3_credentials; /* a file, or "none": no keys */
	const char *s3_profile;	    /* in that file */
	enum s3_path_style s3_path_style;
};

/* An absolute or relative path, file://, http(s):// or s3:// URL. Counted;
 * shared by URL. Makes no request. */
int origin_open(struct fetcher *fetcher, const char *url, struct origin **ret,
		struct err *err);
int origin_open_with(struct fetcher *fetcher, const char *url,
		     const struct origin_options *options, struct origin **ret,
		     struct err *err);
/* Requests under way keep it alive by themselves. */
void origin_close(struct origin *origin);
/* For people: no secrets, no query. */
const char *origin_name(const struct origin *origin);
bool origin_is_local(const struct origin *origin);

enum fetch_priority { FETCH_DEMAND, FETCH_READAHEAD, FETCH_PREFETCH };

/*
 * Why it failed: decides about retry and blame. A body that ends well but
 * short is wrong; a connection that breaks in the middle is unreachable: a
 * restarting server is no liar.
 */
enum fetch_class {
	FETCH_OK,
	FETCH_ABSENT, /* 404, 410, ENOENT: it answered that it is not there */
	FETCH_REFUSED,	   /* 401, 403, 407, EACCES */
	FETCH_UNREACHABLE, /* no connection, name error, TLS, disk error */
	FETCH_BUSY,	   /* 408, 429, 5xx */
	FETCH_SLOW,	   /* silent or crawling for too long, deadline */
	FETCH_WRONG,	   /* other status, range, size; caller: wrong bytes */
	FETCH_CANCELED,
	FETCH_LOCAL, /* no memory here, a bad path: nobody's blame */
};
const char *fetch_class_name(enum fetch_class class); /* "unreachable" */

#define FETCH_ETAG_MAX 128

/* All but the first are for s3:// only. */
enum fetch_method { FETCH_GET, FETCH_PUT, FETCH_POST, FETCH_DELETE };

struct fetch_request {
	/* Asked; stays untouched until done. path is below the origin,
	 * unescaped, without '.' and '..' parts. Texts are copied. */
	struct origin *origin;
	const char *path;
	/* http: path is escaped already and may have a query. */
	bool is_escaped;
	/* http: value of the Authorization header. Sent to the origin itself
	 * and nowhere else, wherever redirects lead. */
	const char *authorization;
	/* http: a redirect that leaves the origin is not followed but is the
	 * answer: result 0, no body, location. */
	bool keeps_redirect;
	/* http: headers, also of a failure that the server answered. */
	bool keeps_headers;
	bool has_range;
	uint64_t offset, length; /* length > 0 with has_range */
	uint64_t expected_total; /* size of the whole thing, 0: unknown */
	/* Where the memory of a range comes from, of POOL_BYTES_MAX at most;
	 * NULL: malloc. */
	struct pool *pool;
	size_t limit_bytes; /* cap on a body without range; 0: 64 MiB */
	enum fetch_priority priority;
	/* http: transfers of a prefetch stand still for its bytes, unless it is
	 * a FETCH_PREFETCH itself: what a reader reads, not what prefetches
	 * need to know as well. */
	bool holds_prefetch;
	uint64_t deadline_ms;	   /* now_ms() scale; 0: none */
	bool no_cache;		   /* ask caches in between to revalidate */
	/* Somebody waits, and it has not been tried here before: do not wait
	 * for a connection or for bytes much longer than this origin usually
	 * takes (a quarter of the time-outs at least, and a second). */
	bool is_hasty;
	/*
	 * Where else it could be had, or NULL; the array stays until done. The
	 * limits below hold while one of these is good, also one that comes
	 * good meanwhile (or always, without others); and what is queued here
	 * while this origin fails others is then FETCH_SLOW too. about_others
	 * is called each second while none is, on the transfer thread (http).
	 */
	struct origin *const *others;
	size_t other_count;
	void (*about_others)(struct fetch_request *request);
	uint32_t patience_ms; /* for a connection, and for any byte; 0: none */
	/* A body that comes slower crawls; 0: 1 KiB/s. It is shared among the
	 * requests that run at the origin. */
	uint32_t min_bytes_per_s;
	/* The same for as long as it is a FETCH_DEMAND: of this one alone, since
	 * its reader's time is not shared either. */
	uint32_t demand_bytes_per_s;
	/* http: the same, from the size of the body that is announced. */
	uint32_t whole_within_ms;
	const char *if_none_match; /* ETag, "*" with FETCH_PUT, or NULL */
	const char *if_range;	   /* http: a strong ETag; NULL or "": none */
	enum fetch_method method;
	/* After '?': escaped, sorted, each with its '='; or NULL. It, if_match
	 * and what is sent are not copied. */
	const char *query;
	const char *if_match; /* ETag or NULL */
	const void *send;
	size_t send_len;
	const char *send_sha256; /* of that, in hex; NULL: nothing is sent */
	/* NAME, ": " and VALUE of one more header; not copied either. */
	const char *send_header;
	/* Body so far, on the transfer thread or a file thread whenever it
	 * grew, the last time with all of it before a done without error; may
	 * be NULL. The bytes stay at their address until done returns (range
	 * requests). */
	void (*progress)(struct fetch_request *request, const uint8_t *body,
			 size_t len);
	/* http: an answer would be taken, of which no byte has been; on the
	 * transfer thread; may be NULL. false: its ETag ("": none) shows that
	 * it is of another version, and the request fails: FETCH_WRONG. */
	bool (*is_same)(struct fetch_request *request, const char *etag);
	/* Exactly once, on the transfer thread or a file thread; must not
	 * block. The request may be freed inside. */
	void (*done)(struct fetch_request *request);
	void *arg;

	/* Answered; valid in done and after. */
	int result; /* 0 or negative errno; -ENOENT only if FETCH_ABSENT */
	enum fetch_class class;
	/* The receiver frees it, or with a pool does pool_put(pool, body,
	 * length), or takes it; also after a failure, when it holds what had
	 * come; may be NULL. With has_range and result 0 body_len is length. */
	uint8_t *body;
	size_t body_len;
	uint64_t total; /* size of the whole thing, 0: unknown */
	bool not_modified;
	unsigned status; /* http: of the last answer, 0: none */
	char *location;	 /* malloc, the receiver's: see keeps_redirect */
	/* Lines of the last answer; malloc, the receiver's; may be NULL. */
	char *headers;
	/* The server's clock and the thing's last change, in seconds; -1:
	 * not said. */
	int64_t date, modified;
	char etag[FETCH_ETAG_MAX];
	uint32_t retry_after_ms; /* asked by the server, 0: none */
	/* A local origin is not there, and the last directory on the way is
	 * not empty, as one is on which a disk is still to be mounted. */
	bool is_misnamed;
	struct err err; /* "HTTP 503", "timed out after 10 s"...: no URL */

	void *private; /* fetch/'s */
};

/* Always ends in done, also for immediate failures (never inside this call). */
void fetch_start(struct fetcher *fetcher, struct fetch_request *request);
/* Ask for an early end; done still comes, soon and on another thread. The
 * caller keeps the request in memory during this call; that done has come
 * meanwhile is harmless. */
void fetch_cancel(struct fetcher *fetcher, struct fetch_request *request);
/* Somebody now waits for it: let it overtake in the queue. Never lowers. */
void fetch_raise(struct fetcher *fetcher, struct fetch_request *request,
		 enum fetch_priority priority);
/* Readers elsewhere are in need of the link: requests of a prefetch over HTTP
 * stand still until then (now_ms() scale), as they do for those of this
 * fetcher. */
void fetch_hold(struct fetcher *fetcher, uint64_t until_ms);

/*
 * ---- health and choice (origins.c): pure but for origin_note and
 * origin_health.
 *
 *   good --failure--> bad, waiting --back-off over--> bad, due --OK--> good
 *                        ^                               |
 *                        +------- failure: twice the back-off, 1 s to 60 s
 *
 * A failure within a minute of the recovery goes on where the back-off had
 * ended.
 *
 * A bad origin is asked by one request at a time, its probe: when due, or
 * before that when no origin is good and its last failure is over a second old
 * (a read that finds everything dead looks once whether that is still so).
 * Such an early probe of an origin that was silent or unreachable gets one
 * second for its first byte. Everybody else skips the origin or fails at once.
 */
struct origin_health {
	uint32_t failures;	 /* back-offs in a row; 0: good */
	uint32_t strikes;	 /* those before it came good, a minute long */
	uint64_t good_ms;	 /* when it did */
	uint64_t bad_until_ms;	 /* not asked before, unless nothing is left */
	uint64_t failed_ms;	 /* when it failed last */
	uint64_t probe_until_ms; /* a request is finding out; fetch/ sets it */
	enum fetch_class last;
};
/* The caller notes each outcome once it has judged the bytes. */
void origin_note(struct origin *origin, enum fetch_class class,
		 uint64_t now_ms);
void origin_health(struct origin *origin, struct origin_health *ret);
/* Pure: health after an outcome. Failures of requests that ran side by side
 * count as one; FETCH_ABSENT is an answer. */
void health_next(struct origin_health *health, enum fetch_class class,
		 uint64_t now_ms);
/* Pure: silent or unreachable three times in a row, each after its back-off:
 * for over three seconds. */
bool health_is_dead(const struct origin_health *health);
/*
 * Pure: index of the origin to ask next, or -1 when none is worth asking now
 * (tried[i] counts tries of this request): the least tried, in list order, of
 * those that are good or due; else an early probe. After -1 a new read fails
 * at once with the origins' last failure; one that has tried waits
 * retry_delay_ms and asks again within its deadline.
 */
int origins_choose(const struct origin_health *healths, const uint32_t *tried,
		   size_t count, uint64_t now_ms, uint64_t deadline_ms);
/* Pure (retry.c): how long to wait before the next round over the origins:
 * 200 ms doubling to 5 s, half of it at random, or what the server asked up to
 * 60 s. */
uint32_t retry_delay_ms(uint32_t round, uint32_t retry_after_ms,
			uint64_t random);
/* Pure: is another round worth it after this outcome at all the origins. */
bool retry_worth(enum fetch_class class);

#endif
