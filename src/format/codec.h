/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_CODEC_H
#define LARDER_FORMAT_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"

struct buf;

/*
 * A chunk or object as stored: exactly one zstd frame (RFC 8878) with its
 * content size, no dictionary, no checksum. A codec holds the contexts of
 * one thread; use one per thread.
 */
struct codec;

struct codec *codec_new(void); /* NULL on ENOMEM */
void codec_free(struct codec *codec);

/* Largest frame for len plain bytes. */
size_t codec_bound(size_t len);

/*
 * Write the frame of data to frame (codec_bound(len) bytes). Data that does
 * not shrink is stored as raw blocks at copy speed (judged by a sample
 * first). Returns the frame's length or a negative errno.
 */
long codec_compress(struct codec *codec, const void *data, size_t len,
		    int level, void *frame, size_t capacity);

/*
 * The plain size a frame declares, after checking that there is exactly one
 * frame of exactly frame_len bytes (block headers are walked), with a content
 * size and no dictionary. -EBADMSG otherwise.
 */
int codec_plain_size(const void *frame, size_t frame_len, uint64_t *ret_size);

/*
 * The length of the frame that data starts with, and the plain size it
 * declares: for walking a row of frames. -EBADMSG if it is not whole or not as
 * above.
 */
long codec_frame_length(const void *data, size_t len, uint64_t *ret_size);

/*
 * Decompress into plain, which must come out as exactly plain_len bytes;
 * then compare with expected unless that is NULL. -EBADMSG for anything that
 * does not fit; plain's contents are then undefined.
 */
int codec_open_frame(struct codec *codec, const void *frame, size_t frame_len,
		     void *plain, size_t plain_len,
		     const struct digest *expected);

/* Whole object of unknown size up to limit, appended to buf; digest checked. */
int codec_open_object(struct codec *codec, const void *frame, size_t frame_len,
		      size_t limit_bytes, const struct digest *expected,
		      struct buf *ret_plain);

#endif
