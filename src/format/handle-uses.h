/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_HANDLE_USES_H
#define LARDER_FORMAT_HANDLE_USES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct blob_handle;

/* How often each handle is in use. Zero it. */
struct handle_uses {
	struct use {
		struct blob_handle *handle;
		uint64_t count;
	} * slots;
	size_t slot_count, used;
};

void handle_uses_release(struct handle_uses *uses);
/* -ENOMEM */
int handle_uses_add(struct handle_uses *uses, struct blob_handle *handle);
/* One that was added; true: it was the last use. */
bool handle_uses_drop(struct handle_uses *uses,
		      const struct blob_handle *handle);

#endif
