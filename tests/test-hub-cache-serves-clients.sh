#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# The hub view is huggingface_hub's cache to huggingface_hub itself (and to
# @huggingface/hub), which finds files, snapshots and absences there, offline and online, and what is newer
# where the Hub leads it to that.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl clients

start_hub --fixture model
mount_hub hf:// mnt
export HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_XET=1
export HF_HUB_DISABLE_PROGRESS_BARS=1 PYTHONDONTWRITEBYTECODE=1
view() {
	HF_HUB_CACHE=$T/mnt/hub "$hub_clients/python/bin/python" \
		"$top_srcdir/tests/hub/cache-view.py" "$1" || fail "$1"
}

HF_HUB_OFFLINE=1 view offline
node "$top_srcdir/tests/hub/cache-view.mjs" "$hub_clients" "$T/mnt/hub" ||
	fail "@huggingface/hub"
view online
hub_control push '{"repo": "model:acme/tiny", "files": {"config.json": "{}"}}' \
	> /dev/null
view newer
