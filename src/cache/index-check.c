/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an index that somebody may have written to is sound. LMDB trusts its
 * pages: a look-up that is led astray is a fault that we catch, or a row whose
 * checksum does not fit, but a write transaction would copy by their numbers,
 * into memory of ours. So before the first one, every page that can be reached
 * is looked at: that it is what its parent says, that its nodes lie apart and
 * in order, that no page is used twice, and that every row has its checksum.
 * The layout is that of LMDB's data format 1, which all 0.9 releases have; the
 * pages of others are left to the library. It is read through a mapping of our
 * own, from the page cache that LMDB reads from.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "cache/fault.h"
#include "cache/index-private.h"

#define PAGE_HEAD 16u
#define PAGE_MAX 65536u
#define NODE_HEAD 8u
#define FIRST_PAGE 2u /* behind the metas */
/* Pages that the transaction which took them gave back are never written: the
 * file may end before the last one. No transaction takes more (INDEX_OPS_MAX).
 */
#define UNWRITTEN_MAX 65536u
#define NO_PAGE UINT64_MAX

#define META_MAGIC 0xbeefc0deu
#define META_VERSION 1u
#define META_END (PAGE_HEAD + 136u)
#define TABLE_BYTES 48u
#define TABLE_FLAGS 0x7fu /* the order and the shape of what is in it */
#define TABLE_INTEGER_KEYS 8u

enum page_flags {
	PAGE_BRANCH = 1,
	PAGE_LEAF = 2,
	PAGE_OVERFLOW = 4,
	PAGE_META = 8,
};

#define NODE_BIG 1u /* the value is on pages of its own */
#define NODE_TABLE 2u

/* Of the library: deeper trees are errors to it too. */
#define DEPTH_MAX 32u

enum table_kind { TABLE_FREE, TABLE_MAIN, TABLE_ROWS };

struct check {
	const uint8_t *map;
	size_t map_bytes;
	uint32_t page_bytes;
	uint64_t page_count;	     /* that the meta speaks of */
	uint64_t written_count;	     /* that the file has */
	uint64_t transaction;	     /* the last */
	uint8_t *seen;		     /* a bit per page */
	uint8_t nodes[PAGE_MAX / 2]; /* of the page that is looked at */
};

struct bytes {
	const uint8_t *data;
	size_t len;
};

/* A table as its record has it, and as it is found. */
struct table {
	enum table_kind kind;
	uint16_t flags, depth;
	uint64_t branches, leaves, overflows, entries, root;
};

static struct table table_load(const uint8_t *record, enum table_kind kind)
{
	return (struct table){
		.kind = kind,
		.flags = load_le16(record + 4),
		.depth = load_le16(record + 6),
		.branches = load_le64(record + 8),
		.leaves = load_le64(record + 16),
		.overflows = load_le64(record + 24),
		.entries = load_le64(record + 32),
		.root = load_le64(record + 40),
	};
}

/* ---- pages */

/* The first that asks for it. */
static bool take_page(struct check *check, uint64_t number)
{
	uint8_t bit = (uint8_t)(1u << (number % 8));

	if (number < FIRST_PAGE || number >= check->page_count ||
	    (check->seen[number / 8] & bit))
		return false;
	check->seen[number / 8] |= bit;
	return true;
}

/* A free one need not be in the file. */
static bool take_written(struct check *check, uint64_t number)
{
	return number < check->written_count && take_page(check, number);
}

static const uint8_t *enter_page(struct check *check, uint64_t number,
				 enum page_flags flags)
{
	const uint8_t *page;

	if (!take_written(check, number))
		return NULL;
	page = check->map + number * check->page_bytes;
	return load_le64(page) == number && load_le16(page + 10) == flags ?
		       page :
		       NULL;
}

struct node {
	uint16_t flags;
	struct bytes key;
	const uint8_t *value;
	uint32_t size;	/* of the value */
	uint64_t child; /* of a branch */
};

static unsigned int node_count(const uint8_t *page)
{
	return (load_le16(page + 12) - PAGE_HEAD) / 2;
}

static struct node node_load(const uint8_t *page, unsigned int number,
			     bool is_leaf)
{
	const uint8_t *at =
		page + load_le16(page + PAGE_HEAD + (size_t)number * 2);
	struct node node = {
		.flags = load_le16(at + 4),
		.key = {at + NODE_HEAD, load_le16(at + 6)},
	};

	node.size = load_le32(at);
	node.value = node.key.data + node.key.len;
	if (!is_leaf) {
		node.child = node.size | (uint64_t)node.flags << 32;
		node.flags = 0;
		node.size = 0;
	}
	return node;
}

/* Bytes of a node in its page. */
static size_t node_bytes(const struct node *node)
{
	size_t value = node->flags & NODE_BIG ? 8 : node->size;

	return (NODE_HEAD + node->key.len + value + 1) & ~(size_t)1;
}

/* Its nodes fill the upper part of a page without a gap, none within another.
 */
static bool nodes_lie_apart(struct check *check, const uint8_t *page,
			    bool is_leaf)
{
	uint32_t lower = load_le16(page + 12), upper = load_le16(page + 14);
	size_t sum = 0;

	if (lower < PAGE_HEAD || lower % 2 || lower > upper || upper % 2 ||
	    upper > check->page_bytes)
		return false;
	memset(check->nodes, 0, check->page_bytes / 2);
	for (unsigned int i = 0; i < node_count(page); i++) {
		uint32_t at = load_le16(page + PAGE_HEAD + (size_t)i * 2);
		struct node node;
		size_t size;

		if (at < upper || at % 2 || at + NODE_HEAD > check->page_bytes)
			return false;
		node = node_load(page, i, is_leaf);
		size = node_bytes(&node);
		if (size > check->page_bytes - at ||
		    memchr(check->nodes + at / 2, 1, size / 2))
			return false;
		memset(check->nodes + at / 2, 1, size / 2);
		sum += size;
	}
	return sum == check->page_bytes - upper;
}

static int order(enum table_kind kind, struct bytes a, struct bytes b)
{
	size_t least = a.len < b.len ? a.len : b.len;
	int r;

	if (kind == TABLE_FREE) {
		uint64_t left = load_le64(a.data), right = load_le64(b.data);

		return left < right ? -1 : left > right;
	}
	r = memcmp(a.data, b.data, least);
	return r ? r : a.len < b.len ? -1 : a.len > b.len;
}

/* ---- values */

static bool check_table(struct check *check, struct table table);

/* A list of free pages, the highest first. */
static bool check_free(struct check *check, const struct node *node,
		       const uint8_t *value)
{
	uint64_t count, transaction = load_le64(node->key.data);

	if (node->size < 8 || node->size % 8 ||
	    transaction > check->transaction)
		return false;
	count = load_le64(value);
	if (count > node->size / 8 - 1)
		return false;
	for (uint64_t i = 1; i <= count; i++) {
		uint64_t page = load_le64(value + i * 8);

		if ((i > 1 && page >= load_le64(value + i * 8 - 8)) ||
		    !take_page(check, page))
			return false;
	}
	return true;
}

/* A value that has pages of its own: more than it needs if the transaction that
 * took them made it shorter. */
static const uint8_t *enter_overflow(struct check *check,
				     const struct node *node,
				     struct table *found)
{
	uint64_t first = load_le64(node->value), count;
	uint64_t needed =
		((uint64_t)PAGE_HEAD - 1 + node->size) / check->page_bytes + 1;
	const uint8_t *page = enter_page(check, first, PAGE_OVERFLOW);

	if (!page)
		return NULL;
	count = load_le32(page + 12);
	if (count < needed)
		return NULL;
	for (uint64_t i = 1; i < count; i++)
		if (!take_written(check, first + i))
			return NULL;
	found->overflows += count;
	return page + PAGE_HEAD;
}

static bool check_value(struct check *check, const struct node *node,
			struct table *found)
{
	const uint8_t *value = node->value;

	found->entries++;
	if (found->kind == TABLE_MAIN)
		return node->flags == NODE_TABLE && node->size == TABLE_BYTES &&
		       check_table(check, table_load(value, TABLE_ROWS));
	if (node->flags & NODE_BIG)
		value = enter_overflow(check, node, found);
	if (!value || (node->flags & ~NODE_BIG) != 0)
		return false;
	if (found->kind == TABLE_FREE)
		return check_free(check, node, value);
	return row_length(node->key.data, node->key.len, value, node->size) >=
	       0;
}

/* ---- trees */

/* Keys of a page lie in [low, high); high may be nothing. */
struct place {
	uint64_t page;
	unsigned int level; /* 1: a leaf */
	struct bytes low, high;
};

static bool check_page(struct check *check, const struct place *place,
		       struct table *found);

static bool is_key_in_place(const struct table *found, const struct node *node,
			    const struct bytes *before,
			    const struct place *place)
{
	if (found->kind == TABLE_FREE && node->key.len != 8)
		return false;
	if (before->data && order(found->kind, *before, node->key) >= 0)
		return false;
	if (place->low.data && order(found->kind, node->key, place->low) < 0)
		return false;
	return !place->high.data ||
	       order(found->kind, node->key, place->high) < 0;
}

static bool check_leaf(struct check *check, const uint8_t *page,
		       const struct place *place, struct table *found)
{
	struct bytes before = {NULL, 0};

	found->leaves++;
	for (unsigned int i = 0; i < node_count(page); i++) {
		struct node node = node_load(page, i, true);

		if (!is_key_in_place(found, &node, &before, place) ||
		    !check_value(check, &node, found))
			return false;
		before = node.key;
	}
	return node_count(page) > 0;
}

static bool check_branch(struct check *check, const uint8_t *page,
			 const struct place *place, struct table *found)
{
	unsigned int count = node_count(page);
	struct bytes before = {NULL, 0};

	found->branches++;
	for (unsigned int i = 0; i < count; i++) {
		struct node node = node_load(page, i, false);
		struct place child = {
			.page = node.child,
			.level = place->level - 1,
			/* The first key means nothing. */
			.low = i > 0 ? node.key : place->low,
			.high = place->high,
		};

		if (i > 0 && !is_key_in_place(found, &node, &before, place))
			return false;
		if (i > 0)
			before = node.key;
		if (i + 1 < count)
			child.high = node_load(page, i + 1, false).key;
		/* A free list's keys are compared as numbers. */
		if (found->kind == TABLE_FREE && child.high.data &&
		    child.high.len != 8)
			return false;
		if (!check_page(check, &child, found))
			return false;
	}
	return count > 0;
}

static bool check_page(struct check *check, const struct place *place,
		       struct table *found)
{
	bool is_leaf = place->level == 1;
	const uint8_t *page = enter_page(check, place->page,
					 is_leaf ? PAGE_LEAF : PAGE_BRANCH);

	if (!page || !nodes_lie_apart(check, page, is_leaf))
		return false;
	return is_leaf ? check_leaf(check, page, place, found) :
			 check_branch(check, page, place, found);
}

static bool check_table(struct check *check, struct table table)
{
	struct place root = {.page = table.root, .level = table.depth};
	struct table found = {.kind = table.kind};
	uint16_t flags = table.kind == TABLE_FREE ? TABLE_INTEGER_KEYS : 0;

	if ((table.flags & TABLE_FLAGS) != flags || table.depth > DEPTH_MAX)
		return false;
	if (table.root == NO_PAGE)
		return table.depth == 0 && table.entries == 0;
	return table.depth > 0 && check_page(check, &root, &found) &&
	       found.branches == table.branches &&
	       found.leaves == table.leaves &&
	       found.overflows == table.overflows &&
	       found.entries == table.entries;
}

/* ---- the file */

struct meta {
	uint32_t page_bytes;
	uint64_t last_page, transaction;
	const uint8_t *tables;
};

static bool meta_load(const uint8_t *page, struct meta *ret)
{
	const uint8_t *meta = page + PAGE_HEAD;

	if (!(load_le16(page + 10) & PAGE_META) ||
	    load_le32(meta) != META_MAGIC ||
	    load_le32(meta + 4) != META_VERSION)
		return false;
	*ret = (struct meta){
		.page_bytes = load_le32(meta + 24),
		.tables = meta + 24,
		.last_page = load_le64(meta + 120),
		.transaction = load_le64(meta + 128),
	};
	return ret->page_bytes == (uint32_t)sysconf(_SC_PAGESIZE) &&
	       ret->page_bytes <= PAGE_MAX;
}

/* The one that LMDB takes. */
static bool meta_choose(const uint8_t *first, const uint8_t *second,
			uint64_t file_bytes, struct meta *ret)
{
	struct meta metas[2];

	if (!meta_load(first, &metas[0]) || !meta_load(second, &metas[1]))
		return false;
	*ret = metas[metas[0].transaction < metas[1].transaction];
	return ret->last_page < file_bytes / ret->page_bytes + UNWRITTEN_MAX;
}

static bool is_known_library(void)
{
	int major, minor;

	mdb_version(&major, &minor, NULL);
	return major == 0 && minor == 9;
}

int index_check_header(int fd)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint8_t first[META_END], second[META_END];
	struct meta meta;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return errno;
	if (st.st_size == 0 || !is_known_library())
		return 0;
	if (pread_full(fd, first, META_END, 0) != META_END ||
	    pread_full(fd, second, META_END, page_bytes) != META_END ||
	    !meta_choose(first, second, (uint64_t)st.st_size, &meta))
		return MDB_CORRUPTED;
	return 0;
}

static int check_guarded(void *arg)
{
	struct check *check = arg;
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	struct meta meta;

	if (check->map_bytes < 2 * page_bytes ||
	    !meta_choose(check->map, check->map + page_bytes, check->map_bytes,
			 &meta))
		return MDB_CORRUPTED;
	check->page_bytes = meta.page_bytes;
	check->page_count = meta.last_page + 1;
	check->written_count = check->map_bytes / meta.page_bytes;
	check->transaction = meta.transaction;
	return check_table(check, table_load(meta.tables, TABLE_FREE)) &&
			       check_table(check,
					   table_load(meta.tables + TABLE_BYTES,
						      TABLE_MAIN)) ?
		       0 :
		       MDB_CORRUPTED;
}

int index_check(struct index *index)
{
	_cleanup_free_ struct check *check = calloc(1, sizeof(*check));
	_cleanup_free_ uint8_t *seen = NULL;
	struct stat st;
	void *map;
	int fd, rc;

	if (!is_known_library())
		return 0;
	if (mdb_env_get_fd(index->env, &fd) != 0 || fstat(fd, &st) < 0)
		return MDB_INVALID;
	seen = calloc(1, ((size_t)st.st_size / 4096 + UNWRITTEN_MAX) / 8 + 1);
	if (!check || !seen)
		return ENOMEM;
	map = mmap(NULL, (size_t)st.st_size + 1, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return ENOMEM;
	/* All of it is wanted, in whatever order. */
	(void)madvise(map, (size_t)st.st_size, MADV_WILLNEED);
	check->map = map;
	check->map_bytes = (size_t)st.st_size;
	check->seen = seen;
	rc = fault_guard(check_guarded, check);
	munmap(map, (size_t)st.st_size + 1);
	return rc;
}
