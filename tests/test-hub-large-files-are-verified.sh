#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# Files of the Hub that are too large for one cache file are compared with their
# digest as well: right ones become complete and stay so for the next mount,
# wrong ones are dropped, and are right once the Hub sends what it lists.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

# Larger than an eighth of the cache and than a segment of 256 MiB; mostly
# a hole, which costs the Hub nothing.
mkdir tree
for name in good bad; do
	random_file 3000001 tree/$name.bin
	truncate -s 270000000 tree/$name.bin
	printf 'the end of %s' $name >> tree/$name.bin
done
start_hub --repo "model:acme/large=$T/tree" lfs=cdn
limits=size=1G,min-free=1M
mount_hub hf://acme/large mnt $limits
cmp tree/good.bin mnt/good.bin
wait_for 120 has_state mnt/good.bin complete
[ "$(find cache/blobs -type f | wc -l)" -ge 2 ] || fail "not in segments"

umount_dataset mnt
hub_forget
mount_hub hf://acme/large mnt $limits
has_state mnt/good.bin complete || fail "not complete for the next mount"
cmp tree/good.bin mnt/good.bin
[ "$(hub_asked)" = 0 ] || fail "asked again: $(cat "$hub_log")"

hub_faults '{"fault": "flip", "match": "bad.bin", "offset": 2000000}'
cat mnt/bad.bin > /dev/null || true
is_dropped() {
	[ "$(getfattr --only-values -n user.larder.cached mnt/bad.bin)" = 0 ]
}
wait_for 120 is_dropped
! has_state mnt/bad.bin complete || fail "wrong bytes became complete"
hub_faults
cmp tree/bad.bin mnt/bad.bin
wait_for 120 has_state mnt/bad.bin complete
has_state mnt/good.bin complete || fail "lost what was right"
