/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mount and those who look at it are told: the kernel's list of mounts,
 * figures, names of folders in hub/, and requests to prefetch, which any user
 * may make.
 */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mount/mount.h"
#include "mount/prefetches.h"
#include "mount/view-hub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_folder(const char *text)
{
	enum view_kind kind = VIEW_KINDS;
	char id[HUB_ID_MAX] = "";

	if (!hub_folder_parse(text, &kind, id))
		return;
	assert(kind < VIEW_KINDS && strlen(id) < sizeof(id));
	assert(strncmp(text, view_kind_word(kind),
		       strlen(view_kind_word(kind))) == 0);
}

/* Nobody's dataset: what gets that far is refused, since the end has come. */
static void try_request(const uint8_t *data, size_t len)
{
	struct larder_prefetch request = {0};
	struct prefetches *all;
	int r;

	memcpy(&request, data, len < sizeof(request) ? len : sizeof(request));
	assert(prefetches_new(0, &all) == 0);
	prefetches_close(all);
	r = prefetches_add(all, 1, NULL, 0, &request);
	assert(r == -EINVAL || r == -ESHUTDOWN);
	prefetches_free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = calloc(1, len + 1), *cursor = text;
	struct mount_entry entry;
	const char *value;
	size_t value_len = 0;

	assert(text);
	if (len > 0)
		memcpy(text, data, len);
	try_folder(text);
	value = mount_figure(text, "used", &value_len);
	assert(!value || (value > text && value + value_len <= text + len));
	if (len > 0)
		try_request(data, len);
	while (mountinfo_next(&cursor, &entry))
		assert(entry.mountpoint > text && entry.source > text &&
		       strlen(entry.mountpoint) + strlen(entry.type) < len);
	free(text);
	return 0;
}
