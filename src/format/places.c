/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the chunks of a recipe lie on one mirror: write and parse.
 *
 * The head is small and read once; a page of 4096 places is fetched and
 * decompressed when a read needs it. Nobody signs this file and a mirror may
 * lie in it: what is checked here is only that following it stays within the
 * packs it names.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "format/codec.h"
#include "format/limits.h"
#include "format/places.h"
#include "format/preamble.h"

/*
 * fixed: preamble, chunks (u64), packs (u32), pages (u32), bytes of the head
 *        (u64), bytes of the file (u64), zero (u64)
 * pack:  digest type (u8), 7 zero bytes, digest (32), size (u64)
 * page:  offset (u64), stored (u32), zero (u32)
 * place: pack (u32), stored (u32), offset (u64)
 */
#define PLACES_MAGIC "LRDL"
#define PACK_BYTES 48u
#define PAGE_BYTES 16u
#define PLACE_BYTES 16u
#define PAGE_PLACES LIMIT_RECIPE_PAGE_RECORDS
#define PAGE_FRAME_MAX (PAGE_PLACES * PLACE_BYTES + 1024u) /* codec_bound */
#define PLACES_LEVEL 3

/* Small enough (below 2^40) that nothing computed from counts overflows. */
#define CHUNKS_MAX                                                             \
	((uint64_t)LIMIT_PLACES_HEAD_BYTES / PAGE_BYTES * PAGE_PLACES)

static uint64_t pages_of(uint64_t chunk_count)
{
	return (chunk_count + PAGE_PLACES - 1) / PAGE_PLACES;
}

static uint64_t head_bytes_of(uint64_t pack_count, uint64_t page_count)
{
	return PLACES_FIXED_BYTES + pack_count * PACK_BYTES +
	       page_count * PAGE_BYTES;
}

static uint32_t page_places(const struct places_head *head, uint32_t page)
{
	uint64_t left = head->chunk_count - (uint64_t)page * PAGE_PLACES;

	return left < PAGE_PLACES ? (uint32_t)left : PAGE_PLACES;
}

int places_head_size(const void *data, size_t len, uint64_t *ret_bytes,
		     struct err *err)
{
	const uint8_t *bytes = data;
	uint64_t chunks, packs, pages, head_bytes, file_bytes;
	int r = preamble_check(bytes, len, PLACES_MAGIC, "places file", err);

	if (r < 0)
		return r;
	if (len < PLACES_FIXED_BYTES)
		return err_set(err, EBADMSG, "places file is cut short");
	chunks = load_le64(bytes + 8);
	packs = load_le32(bytes + 16);
	pages = load_le32(bytes + 20);
	head_bytes = load_le64(bytes + 24);
	file_bytes = load_le64(bytes + 32);
	if (chunks == 0 || chunks > CHUNKS_MAX || pages != pages_of(chunks) ||
	    head_bytes != head_bytes_of(packs, pages) ||
	    head_bytes > LIMIT_PLACES_HEAD_BYTES || file_bytes < head_bytes ||
	    file_bytes > LIMIT_PLACES_BYTES || load_le64(bytes + 40) != 0)
		return err_set(err, EBADMSG,
			       "places file has impossible counts");
	*ret_bytes = head_bytes;
	return 0;
}

static struct places_head *head_new(const uint8_t *fixed)
{
	uint32_t pack_count = load_le32(fixed + 16);
	uint32_t page_count = load_le32(fixed + 20);
	struct places_head *head = calloc(1, sizeof(*head));

	if (!head)
		return NULL;
	head->chunk_count = load_le64(fixed + 8);
	head->pack_count = pack_count;
	head->page_count = page_count;
	head->head_bytes = (size_t)load_le64(fixed + 24);
	head->file_bytes = load_le64(fixed + 32);
	head->packs = calloc(pack_count ? pack_count : 1, sizeof(*head->packs));
	head->pages = calloc(page_count, sizeof(*head->pages));
	if (!head->packs || !head->pages) {
		places_head_free(head);
		return NULL;
	}
	return head;
}

void places_head_free(struct places_head *head)
{
	if (!head)
		return;
	free(head->packs);
	free(head->pages);
	free(head);
}

DEFINE_CLEANUP(struct places_head *, places_head_free);

static int load_packs(const uint8_t *at, struct places_head *head,
		      struct err *err)
{
	static const uint8_t zeros[7];

	for (uint32_t i = 0; i < head->pack_count; i++, at += PACK_BYTES) {
		struct places_pack *pack = &head->packs[i];

		if (at[0] != DIGEST_SHA256)
			return err_set(err, EPROTONOSUPPORT,
				       "places file needs a newer larder "
				       "(digest type %u)",
				       at[0]);
		pack->id.type = DIGEST_SHA256;
		memcpy(pack->id.bytes, at + 8, DIGEST_BYTES);
		pack->size = load_le64(at + 40);
		if (memcmp(at + 1, zeros, sizeof(zeros)) != 0 ||
		    pack->size == 0 || pack->size > LIMIT_PACK_BYTES)
			return err_set(err, EBADMSG,
				       "places file: pack %u is malformed", i);
	}
	return 0;
}

/* Frames lie one after another from the head's end to the file's. */
static int load_pages(const uint8_t *at, struct places_head *head,
		      struct err *err)
{
	uint64_t end = head->head_bytes;

	for (uint32_t i = 0; i < head->page_count; i++, at += PAGE_BYTES) {
		uint32_t stored = load_le32(at + 8);

		if (load_le64(at) != end || stored == 0 ||
		    stored > PAGE_FRAME_MAX || load_le32(at + 12) != 0)
			return err_set(err, EBADMSG,
				       "places file: page %u is malformed", i);
		head->pages[i].offset = end;
		head->pages[i].stored_bytes = stored;
		end += stored;
	}
	if (end != head->file_bytes)
		return err_set(err, EBADMSG,
			       "places file's pages do not end at its end");
	return 0;
}

int places_head_parse(const void *data, size_t len, struct places_head **ret,
		      struct err *err)
{
	_cleanup_(places_head_free_p) struct places_head *head = NULL;
	const uint8_t *bytes = data;
	uint64_t head_bytes;
	int r = places_head_size(data, len, &head_bytes, err);

	if (r < 0)
		return r;
	if (len < head_bytes)
		return err_set(err, EBADMSG, "places file is cut short");
	head = head_new(bytes);
	if (!head)
		return err_set(err, ENOMEM, "out of memory");
	bytes += PLACES_FIXED_BYTES;
	r = load_packs(bytes, head, err);
	if (r == 0)
		r = load_pages(bytes + (size_t)head->pack_count * PACK_BYTES,
			       head, err);
	if (r == 0)
		*ret = steal_ptr(head);
	return r;
}

static bool place_fits(const struct place *place,
		       const struct places_pack *packs, uint32_t pack_count)
{
	if (place->pack == PLACE_ZERO)
		return place->stored_bytes == 0 && place->offset == 0;
	return place->pack < pack_count && place->stored_bytes > 0 &&
	       place->stored_bytes <= LIMIT_FRAME_BYTES &&
	       place->offset <= packs[place->pack].size &&
	       place->stored_bytes <= packs[place->pack].size - place->offset;
}

/* In place: a struct place is as large as its stored form. */
static int load_places(const struct places_head *head, struct place *places,
		       uint32_t count, struct err *err)
{
	_Static_assert(sizeof(*places) == PLACE_BYTES, "loaded in place");

	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *at = (const uint8_t *)&places[i];

		places[i] = (struct place){
			.pack = load_le32(at),
			.stored_bytes = load_le32(at + 4),
			.offset = load_le64(at + 8),
		};
		if (!place_fits(&places[i], head->packs, head->pack_count))
			return err_set(err, EBADMSG,
				       "place %u lies outside its pack", i);
	}
	return 0;
}

int places_page_parse(const struct places_head *head, uint32_t page,
		      const void *frame, size_t frame_len, struct place **ret,
		      uint32_t *ret_count, struct err *err)
{
	_cleanup_free_ struct place *places = NULL;
	uint32_t count;
	size_t plain_len;
	uint64_t size;
	int r;

	assert(page < head->page_count);
	count = page_places(head, page);
	plain_len = (size_t)count * PLACE_BYTES;
	if (frame_len != head->pages[page].stored_bytes ||
	    codec_plain_size(frame, frame_len, &size) < 0 || size != plain_len)
		return err_set(err, EBADMSG,
			       "page %u of the places file is corrupt", page);
	places = calloc(count, sizeof(*places));
	if (!places)
		return err_set(err, ENOMEM, "out of memory");
	if (ZSTD_decompress(places, plain_len, frame, frame_len) != plain_len)
		return err_set(err, EBADMSG,
			       "page %u of the places file is corrupt", page);
	r = load_places(head, places, count, err);
	if (r < 0)
		return err_prefix(err, r, "places file, page %u", page);
	*ret = steal_ptr(places);
	*ret_count = count;
	return 0;
}

static int check_frame(const void *frame, size_t len)
{
	const size_t most = LIMIT_RECIPE_PAGE_RECORDS * PLACE_BYTES;
	_cleanup_free_ uint8_t *plain = NULL;
	uint64_t size;

	if (codec_plain_size(frame, len, &size) < 0 || size == 0 ||
	    size > most || size % PLACE_BYTES)
		return -EBADMSG;
	plain = malloc(size);
	if (!plain)
		return -ENOMEM;
	return ZSTD_decompress(plain, size, frame, len) == size ? 0 : -EBADMSG;
}

static int check_pages(const struct places_head *head, const uint8_t *data)
{
	int r = 0;

	for (uint32_t i = 0; i < head->page_count && r == 0; i++) {
		struct place *places = NULL;
		uint32_t count;

		r = places_page_parse(head, i, data + head->pages[i].offset,
				      head->pages[i].stored_bytes, &places,
				      &count, NULL);
		free(places);
	}
	return r;
}

int places_check_part(const void *data, size_t len)
{
	struct places_head *head = NULL;
	uint64_t head_bytes;
	int r;

	if (places_head_size(data, len, &head_bytes, NULL) < 0)
		return check_frame(data, len);
	if (len == PLACES_FIXED_BYTES)
		return 0;
	r = places_head_parse(data, len, &head, NULL);
	if (r == 0 && len != head->head_bytes)
		r = len == head->file_bytes ? check_pages(head, data) :
					      -EBADMSG;
	places_head_free(head);
	return r;
}

static void store_head(uint8_t *at, const struct places_pack *packs,
		       uint32_t pack_count, uint64_t count)
{
	uint32_t page_count = (uint32_t)pages_of(count);

	preamble_store(at, PLACES_MAGIC);
	store_le64(at + 8, count);
	store_le32(at + 16, pack_count);
	store_le32(at + 20, page_count);
	store_le64(at + 24, head_bytes_of(pack_count, page_count));
	at += PLACES_FIXED_BYTES;
	for (uint32_t i = 0; i < pack_count; i++, at += PACK_BYTES) {
		at[0] = packs[i].id.type;
		memcpy(at + 8, packs[i].id.bytes, DIGEST_BYTES);
		store_le64(at + 40, packs[i].size);
	}
}

struct page_writer {
	struct codec *codec;
	uint8_t plain[PAGE_PLACES * PLACE_BYTES];
	uint8_t frame[PAGE_FRAME_MAX];
};

/* Appends the frame of one page; its entry in the head is at entry_at. */
static int append_page(struct page_writer *writer, const struct place *places,
		       uint32_t count, size_t start, size_t entry_at,
		       struct buf *file)
{
	size_t end = file->len - start;
	uint8_t *entry;
	long len;
	int r;

	for (uint32_t i = 0; i < count; i++) {
		uint8_t *at = writer->plain + (size_t)i * PLACE_BYTES;

		store_le32(at, places[i].pack);
		store_le32(at + 4, places[i].stored_bytes);
		store_le64(at + 8, places[i].offset);
	}
	len = codec_compress(writer->codec, writer->plain,
			     (size_t)count * PLACE_BYTES, PLACES_LEVEL,
			     writer->frame, sizeof(writer->frame));
	if (len < 0)
		return (int)len;
	r = buf_append(file, writer->frame, (size_t)len);
	if (r < 0)
		return r;
	entry = file->data + start + entry_at;
	store_le64(entry, end);
	store_le32(entry + 8, (uint32_t)len);
	return 0;
}

static int check_input(const struct places_pack *packs, uint32_t pack_count,
		       const struct place *places, uint64_t count)
{
	if (count > CHUNKS_MAX || head_bytes_of(pack_count, pages_of(count)) >
					  LIMIT_PLACES_HEAD_BYTES)
		return -EFBIG;
	if (count == 0)
		return -EINVAL;
	for (uint32_t i = 0; i < pack_count; i++)
		if (packs[i].id.type != DIGEST_SHA256 || packs[i].size == 0 ||
		    packs[i].size > LIMIT_PACK_BYTES)
			return -EINVAL;
	for (uint64_t i = 0; i < count; i++)
		if (!place_fits(&places[i], packs, pack_count))
			return -EINVAL;
	return 0;
}

static int append_file(struct page_writer *writer,
		       const struct places_pack *packs, uint32_t pack_count,
		       const struct place *places, uint64_t count,
		       struct buf *file)
{
	size_t start = file->len;
	size_t entry_at = head_bytes_of(pack_count, 0);
	int r = buf_append_zeros(file,
				 head_bytes_of(pack_count, pages_of(count)));

	if (r < 0)
		return r;
	store_head(file->data + start, packs, pack_count, count);
	for (uint64_t i = 0; i < count && r == 0; i += PAGE_PLACES) {
		uint64_t left = count - i;

		r = append_page(writer, places + i,
				left < PAGE_PLACES ? (uint32_t)left :
						     PAGE_PLACES,
				start, entry_at, file);
		entry_at += PAGE_BYTES;
	}
	if (r == 0 && file->len - start > LIMIT_PLACES_BYTES)
		r = -EFBIG;
	if (r < 0)
		return r;
	store_le64(file->data + start + 32, file->len - start);
	return 0;
}

int places_write(const struct places_pack *packs, uint32_t pack_count,
		 const struct place *places, uint64_t count,
		 struct buf *ret_file)
{
	size_t before = ret_file->len;
	struct page_writer *writer;
	int r = check_input(packs, pack_count, places, count);

	if (r < 0)
		return r;
	writer = malloc(sizeof(*writer));
	if (!writer)
		return -ENOMEM;
	writer->codec = codec_new();
	r = writer->codec ? append_file(writer, packs, pack_count, places,
					count, ret_file) :
			    -ENOMEM;
	codec_free(writer->codec);
	free(writer);
	if (r < 0)
		ret_file->len = before;
	return r;
}
