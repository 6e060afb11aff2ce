#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Hub itself, and what stands in for it: servers that send large files
# themselves, that name Xet's headers, that lead small files over a cache or
# everything to another host. And a cache that takes nothing.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model
shard=model-00001-of-00002.safetensors
wanted=$(curl -sSL "$hub_url/acme/tiny/resolve/main/$shard" | sha256sum)
same() {
	rm -rf cache
	drop_caches
	mount_hub hf://acme/tiny mnt
	[ "$(sha256sum < mnt/$shard)" = "$wanted" ] || fail "$1: another shard"
	grep -q '"v": 2' mnt/config.json || fail "$1: another configuration"
	[ "$(cat mnt/odd/%41)" = 'this is %41' ] || fail "$1: another name"
	wait_for 60 has_state mnt/$shard complete
	umount_dataset mnt
}
hub_set '{"lfs": "direct"}'
same direct
hub_set '{"lfs": "xet", "small": "cache"}'
same xet
hub_set '{"lfs": "cdn", "small": "direct"}'
hub_faults '{"fault": "mirror"}'
same mirror
hub_faults '{"fault": "no-head"}'
same no-head
hub_faults

# Nothing can be kept: the listing stays in memory, the bytes come again.
mkdir full
mount -t tmpfs -o size=700k none full
mount_hub hf://acme/tiny mnt "cache=$T/full/cache"
for i in 1 2; do
	[ "$(sha256sum < mnt/$shard)" = "$wanted" ] || fail "without a cache"
	[ "$(ls mnt/odd | wc -l)" = 13 ] || fail "names are missing"
	drop_caches
done
umount_dataset mnt
umount full
