/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_PIN_FILE_H
#define LARDER_CACHE_PIN_FILE_H

#include "cache/cache.h"

/* 5 million blobs. */
#define PIN_BYTES_MAX (512u << 20)
#define PIN_FIRST_LINE "larder-pin 1"

/* The file of a pin as text; larder-format(5), "NODE CACHE", pins. */
int pin_file_encode(struct buf *buf, const struct cache_pin *pin);
/* One line of it. */
int pin_file_put_text(struct buf *buf, const char *key, const char *value);
/* A value's \xNN undone in place; what is no such thing stays. */
void pin_file_unescape(char *text);
/* One line of a pin's file, cut at the first space. Lines of other keys are
 * for later versions. */
typedef void pin_line_fn(void *arg, const char *key, char *value);
int pin_file_read(int dirfd, const char *name, pin_line_fn *each, void *arg);
/* Calls each for every pin's file name; -ENOENT is none. */
int pin_file_each(int dirfd,
		  int (*each)(void *arg, int dirfd, const char *name),
		  void *arg);

#endif
