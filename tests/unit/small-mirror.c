/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/io.h"
#include "format/catalog-writer.h"
#include "format/codec.h"
#include "format/head.h"
#include "format/pack.h"
#include "format/places.h"
#include "source/source.h"
#include "small-mirror.h"

#define CHUNKS_MAX 8192u
#define CHECK_TIMEOUT_MS 240000u

struct blob_handle {
	struct catalog_blob info;
	struct recipe_record *records;
	uint8_t **data;
	uint32_t count;
	uint64_t size;
};

#define PACKED_BUCKETS 4096u

struct packed {
	struct packed *next; /* in its bucket */
	struct digest digest;
	uint32_t pack;
	struct place place;
};

struct maker {
	struct small_mirror *mirror;
	enum small_layout layout;
	uint64_t random;
	struct codec *codec;
	struct secret_key key;
	struct blob_handle blobs[8];
	size_t blob_count;
	struct packed *packed, *packed_buckets[PACKED_BUCKETS];
	size_t packed_count;
	struct places_pack packs[2];
	struct buf pack_data[2];
	struct pack_record *pack_records[2];
	uint32_t pack_counts[2];
};

static uint64_t next_random(struct maker *maker)
{
	maker->random ^= maker->random << 13;
	maker->random ^= maker->random >> 7;
	maker->random ^= maker->random << 17;
	return maker->random;
}

static void put_file(const struct maker *maker, const char *path,
		     const void *data, size_t len)
{
	char full[900];

	snprintf(full, sizeof(full), "%s/%s", maker->mirror->dir, path);
	assert(file_write(AT_FDCWD, full, data, len, 0644, FILE_WRITE_MKDIR) ==
	       0);
}

static void put_object(const struct maker *maker, const struct digest *digest,
		       const void *data, size_t len)
{
	char path[SOURCE_PATH_MAX];
	size_t capacity = codec_bound(len);
	uint8_t *frame = malloc(capacity);
	long n = codec_compress(maker->codec, data, len, 3, frame, capacity);

	assert(n > 0);
	put_file(maker, mirror_object_path(digest, path), frame, (size_t)n);
	free(frame);
}

/* ---- blobs */

static uint8_t *make_bytes(struct maker *maker, size_t len, bool is_text)
{
	uint8_t *data = malloc(len ? len : 1);

	for (size_t i = 0; i < len; i += 8) {
		uint64_t r = next_random(maker);

		/* Text: letters from '`' on, eight of them. */
		if (is_text)
			r = (r & UINT64_C(0x0707070707070707)) |
			    UINT64_C(0x6060606060606060);
		memcpy(data + i, &r, len - i < 8 ? len - i : 8);
	}
	return data;
}

static void add_chunk(struct blob_handle *blob, uint8_t *data, uint32_t len,
		      bool is_zero)
{
	struct recipe_record *record;

	blob->records = reallocarray(blob->records, blob->count + 1,
				     sizeof(*blob->records));
	blob->data =
		reallocarray(blob->data, blob->count + 1, sizeof(*blob->data));
	record = &blob->records[blob->count];
	memset(record, 0, sizeof(*record));
	record->length = len;
	record->is_zero = is_zero;
	if (!is_zero)
		digest_sha256(data, len, &record->digest);
	blob->data[blob->count++] = data;
	blob->size += len;
}

static int put_page(void *arg, const struct digest *digest, const void *data,
		    size_t len)
{
	put_object(arg, digest, data, len);
	return 0;
}

static void finish_blob(struct maker *maker, struct blob_handle *blob)
{
	struct recipe_writer *writer;
	struct buf root;

	blob->info.size = blob->size;
	if (blob->count <= LIMIT_INLINE_CHUNKS) {
		blob->info.kind = BLOB_INLINE;
		blob->info.inline_count = blob->count;
		assert(recipe_inline_id(blob->records, blob->count,
					&blob->info.id) == 0);
		return;
	}
	blob->info.kind = BLOB_RECIPE;
	buf_init(&root, LIMIT_RECIPE_BYTES);
	writer = recipe_writer_new(put_page, maker);
	for (uint32_t i = 0; i < blob->count; i++)
		assert(recipe_writer_add(writer, &blob->records[i]) == 0);
	assert(recipe_writer_finish(writer, &root, &blob->info.id) == 0);
	put_object(maker, &blob->info.id, root.data, root.len);
	recipe_writer_free(writer);
	buf_release(&root);
}

/* ---- packs */

/* In sanitizer builds a search through all of them takes longer than what is
 * to be tested. */
static struct packed **packed_bucket(struct maker *maker,
				     const struct digest *digest)
{
	return &maker->packed_buckets[load_le16(digest->bytes) %
				      PACKED_BUCKETS];
}

static struct packed *find_packed(struct maker *maker,
				  const struct digest *digest)
{
	struct packed *packed = *packed_bucket(maker, digest);

	while (packed && !digest_equal(&packed->digest, digest))
		packed = packed->next;
	return packed;
}

static void pack_chunk(struct maker *maker, const struct recipe_record *record,
		       const uint8_t *data)
{
	uint32_t pack =
		maker->layout == SMALL_REVERSED && maker->packed_count % 3 == 0;
	struct buf *to = &maker->pack_data[pack];
	size_t capacity = codec_bound(record->length);
	struct packed *packed;
	uint8_t *frame;
	long n;

	if (record->is_zero || find_packed(maker, &record->digest))
		return;
	frame = malloc(capacity);
	n = codec_compress(maker->codec, data, record->length, 1, frame,
			   capacity);
	assert(n > 0);
	packed = &maker->packed[maker->packed_count++];
	packed->digest = record->digest;
	packed->next = *packed_bucket(maker, &record->digest);
	*packed_bucket(maker, &record->digest) = packed;
	packed->place = (struct place){
		.pack = pack,
		.stored_bytes = (uint32_t)n,
		.offset = to->len,
	};
	maker->pack_records[pack][maker->pack_counts[pack]++] =
		(struct pack_record){
			.digest = record->digest,
			.offset = to->len,
			.stored_bytes = (uint32_t)n,
			.plain_bytes = record->length,
		};
	assert(buf_append(to, frame, (size_t)n) == 0);
	maker->mirror->chunk_bytes += record->length;
	free(frame);
}

static void make_packs(struct maker *maker)
{
	char path[SOURCE_PATH_MAX];

	for (size_t i = 0; i < maker->blob_count; i++) {
		struct blob_handle *blob = &maker->blobs[i];

		for (uint32_t c = 0; c < blob->count; c++) {
			uint32_t at = maker->layout == SMALL_REVERSED ?
					      blob->count - 1 - c :
					      c;

			pack_chunk(maker, &blob->records[at], blob->data[at]);
		}
	}
	for (int i = 0; i < 2; i++) {
		struct buf *data = &maker->pack_data[i];

		if (maker->pack_counts[i] == 0)
			continue;
		assert(pack_table_write(maker->pack_records[i],
					maker->pack_counts[i], data->len, data,
					&maker->packs[i].id) == 0);
		maker->packs[i].size = data->len;
		mirror_pack_path(&maker->packs[i].id, path);
		put_file(maker, path, data->data, data->len);
		snprintf(maker->mirror->pack_path[i],
			 sizeof(maker->mirror->pack_path[i]), "%s/%.120s",
			 maker->mirror->dir, path);
	}
}

static void put_places(struct maker *maker, const struct digest *name,
		       const struct recipe_record *const *records,
		       uint64_t count)
{
	struct place *places = calloc(count, sizeof(*places));
	uint32_t pack_count = maker->pack_counts[1] ? 2 : 1;
	char path[SOURCE_PATH_MAX];
	struct buf file;

	for (uint64_t i = 0; i < count; i++)
		places[i] =
			records[i]->is_zero ?
				(struct place){.pack = PLACE_ZERO} :
				find_packed(maker, &records[i]->digest)->place;
	buf_init(&file, LIMIT_PLACES_BYTES);
	assert(places_write(maker->packs, pack_count, places, count, &file) ==
	       0);
	put_file(maker, mirror_places_path(name, path), file.data, file.len);
	buf_release(&file);
	free(places);
}

static void put_blob_places(struct maker *maker, const struct blob_handle *blob)
{
	const struct recipe_record **records =
		calloc(blob->count, sizeof(*records));

	for (uint32_t i = 0; i < blob->count; i++)
		records[i] = &blob->records[i];
	if (blob->info.kind == BLOB_RECIPE)
		put_places(maker, &blob->info.id, records, blob->count);
	free(records);
}

/* ---- the tree */

static int give_blob(void *arg, struct blob_handle *handle,
		     struct catalog_blob *ret,
		     const struct recipe_record **ret_records)
{
	(void)arg;
	*ret = handle->info;
	*ret_records = handle->records;
	return 0;
}

static void blob_unused(void *arg, struct blob_handle *handle)
{
	(void)arg;
	(void)handle;
}

static int give_catalog(void *arg, const struct digest *digest,
			const void *data, size_t len,
			struct blob_handle *const *inline_blobs, size_t count)
{
	const struct recipe_record *records[64];
	struct maker *maker = arg;
	uint64_t n = 0;

	put_object(maker, digest, data, len);
	for (size_t i = 0; i < count; i++)
		for (uint32_t c = 0; c < inline_blobs[i]->count; c++)
			records[n++] = &inline_blobs[i]->records[c];
	if (n > 0)
		put_places(maker, digest, records, n);
	return 0;
}

static void remember(struct maker *maker, const char *path,
		     const struct blob_handle *blob, uint64_t offset,
		     size_t size)
{
	struct small_mirror *mirror = maker->mirror;
	struct small_file *file;
	uint64_t start = 0;
	size_t done = 0;

	mirror->files = reallocarray(mirror->files, mirror->file_count + 1,
				     sizeof(*mirror->files));
	file = &mirror->files[mirror->file_count++];
	file->path = strdup(path);
	file->size = size;
	file->data = calloc(1, size ? size : 1);
	for (uint32_t i = 0; i < blob->count && done < size; i++) {
		uint64_t end = start + blob->records[i].length;

		if (offset + done < end) {
			uint64_t skip = offset + done - start;
			size_t n = end - start - skip;

			if (n > size - done)
				n = size - done;
			if (!blob->records[i].is_zero)
				memcpy(file->data + done, blob->data[i] + skip,
				       n);
			done += n;
		}
		start = end;
	}
	assert(done == size);
}

static struct catalog_entry an_entry(const char *name, uint8_t type,
				     uint64_t size)
{
	return (struct catalog_entry){
		.name = name,
		.name_len = (uint16_t)strlen(name),
		.type = type,
		.mode = type == ENTRY_DIRECTORY ? 0755 : 0644,
		.size = size,
		.mtime_s = 1700000000,
		.mtime_ns = 123456789,
		.blob = CATALOG_NO_BLOB,
	};
}

static void put_entry(struct maker *maker, struct catalog_writer *writer,
		      const char *path, uint64_t size, struct blob_handle *blob,
		      uint64_t offset)
{
	const char *slash = strrchr(path, '/');
	struct catalog_entry entry =
		an_entry(slash ? slash + 1 : path, ENTRY_FILE, size);
	uint8_t sha256[DIGEST_BYTES];
	struct digest digest;
	struct buf xattrs;

	buf_init(&xattrs, 4096);
	if (strcmp(path, SMALL_BIG) == 0)
		assert(catalog_xattrs_add(&xattrs, "user.colour", "blue", 4) ==
		       0);
	entry.blob_offset = offset;
	if (blob)
		remember(maker, path, blob, offset, size);
	if (blob) {
		struct small_file *file =
			&maker->mirror->files[maker->mirror->file_count - 1];

		digest_sha256(file->data, size, &digest);
		memcpy(sha256, digest.bytes, sizeof(sha256));
		entry.sha256 = sha256;
	}
	if (xattrs.len) {
		entry.xattrs = xattrs.data;
		entry.xattrs_len = (uint32_t)xattrs.len;
	}
	assert(catalog_writer_file(writer, &entry, blob) == 0);
	buf_release(&xattrs);
}

static void put_text(struct catalog_writer *writer, const char *name,
		     uint8_t type, const char *text)
{
	struct catalog_entry entry = an_entry(name, type, 0);

	entry.text = text;
	entry.text_len = (uint16_t)strlen(text);
	if (type == ENTRY_SYMLINK) {
		entry.size = strlen(text);
		entry.mode = 0777;
	} else {
		entry.size = 1000;
	}
	assert(catalog_writer_file(writer, &entry, NULL) == 0);
}

static void enter(struct catalog_writer *writer, const char *name)
{
	struct catalog_entry entry = an_entry(name, ENTRY_DIRECTORY, 0);

	assert(catalog_writer_enter(writer, &entry) == 0);
}

static void make_blobs(struct maker *maker)
{
	struct blob_handle *big = &maker->blobs[0];
	struct blob_handle *paged = &maker->blobs[1];
	struct blob_handle *shared = &maker->blobs[2];

	for (int i = 0; i < 24; i++) {
		uint32_t len = 300000 + (uint32_t)(next_random(maker) % 700000);

		add_chunk(big, make_bytes(maker, len, i % 2), len, false);
		if (i == 5)
			add_chunk(big, calloc(1, 1u << 20), 1u << 20, true);
		if (i == 7 || i == 9) /* repeats of chunk 0 */
			add_chunk(big,
				  memcpy(malloc(big->records[0].length),
					 big->data[0], big->records[0].length),
				  big->records[0].length, false);
	}
	for (int i = 0; i < 5000; i++)
		add_chunk(paged, make_bytes(maker, 40, false), 40, false);
	for (int i = 0; i < 3; i++)
		add_chunk(shared, make_bytes(maker, 400000, true), 400000,
			  false);
	maker->blob_count = 3;
	for (size_t i = 0; i < maker->blob_count; i++)
		finish_blob(maker, &maker->blobs[i]);
}

static void put_head(struct maker *maker, const struct digest *root,
		     uint64_t root_bytes, uint64_t entries, uint64_t bytes)
{
	struct head head = {
		.catalog = *root,
		.catalog_bytes = root_bytes,
		.entry_count = entries,
		.total_bytes = bytes,
		.serial = maker->mirror->serial,
		.time = 1700000000,
	};
	char path[SOURCE_PATH_MAX];
	struct buf text;

	buf_init(&text, LIMIT_HEAD_BYTES);
	snprintf(head.dataset, sizeof(head.dataset), "%s", SMALL_NAME);
	assert(head_print(&head, &text) == 0);
	assert(head_sign(&text, &maker->key) == 0);
	put_file(maker, mirror_head_path(SMALL_NAME, NULL, path), text.data,
		 text.len);
	buf_clear(&text);
	assert(mirror_marker_print(1700000000, &text) == 0);
	put_file(maker, MIRROR_MARKER, text.data, text.len);
	buf_release(&text);
}

static void make_tree(struct maker *maker)
{
	static const struct catalog_writer_ops ops = {
		.blob = give_blob,
		.blob_unused = blob_unused,
		.catalog = give_catalog,
	};
	struct catalog_params params = catalog_params_defaults;
	struct blob_handle *big = &maker->blobs[0];
	struct blob_handle *paged = &maker->blobs[1];
	struct blob_handle *shared = &maker->blobs[2];
	struct catalog_writer *writer;
	uint64_t bytes, entries, total;
	struct digest root;
	char name[64];

	params.split_min_entries = 50;
	params.split_mean_entries = 100;
	params.split_max_entries = 200;
	params.has_file_digests = true;
	writer = catalog_writer_new(&params, &ops, maker);
	assert(writer);
	enter(writer, "");
	put_entry(maker, writer, SMALL_BIG, big->size, big, 0);
	enter(writer, "dir");
	put_text(writer, "gone", ENTRY_TOMBSTONE, "asked for by its author");
	put_text(writer, "hole", ENTRY_HOLE, "was never uploaded");
	put_text(writer, "link", ENTRY_SYMLINK, "../big.bin");
	enter(writer, "sub");
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "dir/sub/%03d.txt", i);
		put_entry(maker, writer, name, 19991, shared,
			  (uint64_t)i * 20000);
	}
	assert(catalog_writer_leave(writer) == 0);
	assert(catalog_writer_leave(writer) == 0);
	put_entry(maker, writer, "empty", 0, NULL, 0);
	enter(writer, "many");
	for (int i = 0; i < SMALL_MANY; i++) {
		snprintf(name, sizeof(name), "many/%05d", i);
		put_entry(maker, writer, name, 0, NULL, 0);
	}
	assert(catalog_writer_leave(writer) == 0);
	put_entry(maker, writer, "paged.bin", paged->size, paged, 0);
	assert(catalog_writer_leave(writer) == 0);
	assert(catalog_writer_finish(writer, &root, &bytes, &entries, &total) ==
	       0);
	catalog_writer_free(writer);
	put_head(maker, &root, bytes, entries, total);
}

static void make_key(struct maker *maker, const struct small_mirror *like)
{
	struct buf text;
	char path[200];

	buf_init(&text, 4096);
	if (like) {
		snprintf(path, sizeof(path), "%s/secret", like->root);
		assert(file_read(AT_FDCWD, path, &text) == 0);
		assert(secret_key_parse(text.data, text.len, &maker->key,
					NULL) == 0);
		buf_clear(&text);
	} else {
		assert(secret_key_new(&maker->key) == 0);
	}
	assert(secret_key_print(&maker->key, &text) == 0);
	snprintf(path, sizeof(path), "%s/secret", maker->mirror->root);
	assert(file_write(AT_FDCWD, path, text.data, text.len, 0600, 0) == 0);
	buf_clear(&text);
	assert(public_key_print(&maker->key.public_key, &text) == 0);
	assert(file_write(AT_FDCWD, maker->mirror->key_file, text.data,
			  text.len, 0644, 0) == 0);
	buf_release(&text);
}

struct small_mirror *small_mirror_new(unsigned seed, uint64_t serial,
				      enum small_layout layout,
				      const struct small_mirror *like)
{
	struct small_mirror *mirror = calloc(1, sizeof(*mirror));
	struct maker maker = {
		.mirror = mirror,
		.layout = layout,
		.random = UINT64_C(88172645463325252) + seed,
		.codec = codec_new(),
		.packed = calloc(CHUNKS_MAX, sizeof(*maker.packed)),
	};

	mirror->serial = serial;
	scratch_directory_at(mirror->root, sizeof(mirror->root));
	snprintf(mirror->dir, sizeof(mirror->dir), "%s/m", mirror->root);
	snprintf(mirror->key_file, sizeof(mirror->key_file), "%s/key.pub",
		 mirror->root);
	assert(mkdir(mirror->dir, 0755) == 0);
	for (int i = 0; i < 2; i++) {
		buf_init(&maker.pack_data[i], LIMIT_PACK_BYTES);
		maker.pack_records[i] =
			calloc(CHUNKS_MAX, sizeof(struct pack_record));
	}
	make_key(&maker, like);
	make_blobs(&maker);
	make_packs(&maker);
	for (size_t i = 0; i < maker.blob_count; i++)
		put_blob_places(&maker, &maker.blobs[i]);
	make_tree(&maker);
	for (size_t i = 0; i < maker.blob_count; i++) {
		for (uint32_t c = 0; c < maker.blobs[i].count; c++)
			free(maker.blobs[i].data[c]);
		free(maker.blobs[i].data);
		free(maker.blobs[i].records);
	}
	for (int i = 0; i < 2; i++) {
		buf_release(&maker.pack_data[i]);
		free(maker.pack_records[i]);
	}
	free(maker.packed);
	codec_free(maker.codec);
	return mirror;
}

void small_mirror_free(struct small_mirror *mirror)
{
	assert(remove_tree(AT_FDCWD, mirror->root) == 0);
	for (size_t i = 0; i < mirror->file_count; i++) {
		free(mirror->files[i].path);
		free(mirror->files[i].data);
	}
	free(mirror->files);
	free(mirror);
}

const struct small_file *small_file(const struct small_mirror *mirror,
				    const char *path)
{
	for (size_t i = 0; i < mirror->file_count; i++)
		if (strcmp(mirror->files[i].path, path) == 0)
			return &mirror->files[i];
	return NULL;
}

void small_mirror_corrupt(const struct small_mirror *mirror, int pack)
{
	int fd = open(mirror->pack_path[pack], O_RDWR | O_CLOEXEC);
	struct stat st;
	uint8_t byte;

	assert(fd >= 0 && fstat(fd, &st) == 0);
	for (off_t at = 2000; at < st.st_size; at += 4096) {
		assert(pread_full(fd, &byte, 1, (uint64_t)at) == 1);
		byte ^= 0x55;
		assert(pwrite_full(fd, &byte, 1, (uint64_t)at) == 0);
	}
	close(fd);
}

void small_mirror_remove(const struct small_mirror *mirror, const char *what)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", mirror->dir, what);
	assert(remove_tree(AT_FDCWD, path) == 0);
}

void small_directory_remove(char *dir)
{
	assert(remove_tree(AT_FDCWD, dir) == 0);
	free(dir);
}

struct node *small_node(const char *cache_dir, uint32_t timeout_ms)
{
	struct node_options options = {
		.cache_dir = cache_dir,
		.cache_limit_bytes = UINT64_C(1) << 30,
		.cache_min_free_bytes = 1,
		.timeout_ms = timeout_ms,
	};
	struct node *node = NULL;
	struct err err = {""};

	if (node_open(&options, &node, &err) < 0)
		fprintf(stderr, "node_open: %s\n", err.text);
	assert(node);
	return node;
}

struct dataset *small_dataset(struct node *node, const struct small_mirror *key,
			      const char *const *mirrors, size_t count)
{
	const char *keys[] = {key->key_file};
	struct dataset_options options = {
		.name = SMALL_NAME,
		.mirrors = mirrors,
		.mirror_count = count,
		.key_files = keys,
		.key_count = 1,
	};
	struct dataset *dataset = NULL;
	struct err err = {""};

	if (dataset_add(node, &options, &dataset, &err) < 0)
		fprintf(stderr, "dataset_add: %s\n", err.text);
	assert(dataset);
	return dataset;
}

int small_current(struct dataset *dataset, struct snapshot **ret,
		  struct err *err)
{
	struct blocking_waiter *waiter = blocking_waiter_new();
	int r;

	while ((r = dataset_current(dataset, blocking_waiter_get(waiter), ret,
				    err)) == DATASET_PARKED)
		waiter_block(waiter);
	blocking_waiter_free(waiter);
	return r;
}

struct snapshot *small_snapshot(struct dataset *dataset)
{
	struct snapshot *snapshot = NULL;
	struct err err = {""};

	if (small_current(dataset, &snapshot, &err) < 0)
		fprintf(stderr, "dataset_current: %s\n", err.text);
	assert(snapshot);
	return snapshot;
}

int small_resolve(struct snapshot *snapshot, const char *path,
		  struct entry_attr *ret, struct err *err)
{
	struct blocking_waiter *waiter = blocking_waiter_new();
	int r;

	while ((r = snapshot_resolve(snapshot, path,
				     blocking_waiter_get(waiter), ret, err)) ==
	       DATASET_PARKED)
		waiter_block(waiter);
	blocking_waiter_free(waiter);
	return r;
}

/* timeout_ms 0: the node's. */
static long read_within(struct snapshot *snapshot, uint64_t number,
			uint64_t offset, size_t len, uint8_t *to,
			uint32_t timeout_ms, struct err *err)
{
	struct blocking_waiter *waiter = blocking_waiter_new();
	struct read_result result;
	size_t done = 0;
	int r;

	blocking_waiter_get(waiter)->timeout_ms = timeout_ms;
	while ((r = snapshot_read(snapshot, number, offset, len,
				  blocking_waiter_get(waiter), &result, err)) ==
	       DATASET_PARKED)
		waiter_block(waiter);
	if (r < 0) {
		blocking_waiter_free(waiter);
		return r;
	}
	for (unsigned i = 0; i < result.count; i++) {
		const struct read_piece *piece = &result.pieces[i];

		if (piece->fd < 0)
			memcpy(to + done, piece->memory, piece->len);
		else
			assert(pread_full(piece->fd, to + done, piece->len,
					  piece->fd_offset) ==
			       (ssize_t)piece->len);
		done += piece->len;
	}
	assert(done == result.len);
	read_result_release(&result);
	blocking_waiter_free(waiter);
	return (long)done;
}

long small_read(struct snapshot *snapshot, uint64_t number, uint64_t offset,
		size_t len, uint8_t *to, struct err *err)
{
	return read_within(snapshot, number, offset, len, to, 0, err);
}

void small_check_all(struct snapshot *snapshot,
		     const struct small_mirror *mirror)
{
	for (size_t i = 0; i < mirror->file_count; i++) {
		const struct small_file *file = &mirror->files[i];
		uint8_t *data = malloc(file->size + 1);
		struct entry_attr attr;
		struct err err = {""};
		size_t done = 0;
		long n;

		assert(small_resolve(snapshot, file->path, &attr, &err) == 0);
		assert(attr.size == file->size);
		/* What is asked is whether the bytes are right. A read of
		 * 5000 chunks under a sanitizer has no time to keep to. */
		while ((n = read_within(snapshot, attr.number, done, 1u << 20,
					data + done, CHECK_TIMEOUT_MS, &err)) >
		       0)
			done += (size_t)n;
		if (n < 0)
			fprintf(stderr, "%s: %s\n", file->path, err.text);
		assert(n == 0 && done == file->size);
		assert(memcmp(data, file->data, file->size) == 0);
		free(data);
	}
}
