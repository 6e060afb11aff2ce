#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A prefetch from the Hub ends with 0 only when the files have the digests
# that the Hub lists: what was sent wrong once is fetched again, what stays wrong
# is named, and what a prefetch has brought is complete for whoever mounts next.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

mkdir tree
random_file 20000001 tree/model.safetensors
random_file 300001 tree/bad.bin
echo small > tree/config.json
start_hub --repo "model:acme/made=$T/tree" lfs=cdn
prefetch() {
	larder prefetch -c larder.conf -o "cache=$T/cache" hf://acme/made \
		> said 2>&1
}

hub_faults '{"fault": "flip", "route": "cdn", "match": "bad.bin", "offset": 200000, "times": 1}'
prefetch || fail "$(cat said)"
grep -q 'do not have its digest' said || fail "nothing was flipped: $(cat said)"
hub_faults
mount_hub hf://acme/made mnt
for name in model.safetensors bad.bin config.json; do
	has_state mnt/$name complete || fail "$name: $(state_of mnt/$name)"
	cmp tree/$name mnt/$name
done
umount_dataset mnt

rm -rf cache
hub_faults '{"fault": "flip", "match": "bad.bin", "offset": 200000}'
! prefetch || fail "wrong bytes are taken for right: $(cat said)"
grep -q 'bad.bin.*do not have the digest' said || fail "$(cat said)"
hub_faults
prefetch || fail "$(cat said)"
mount_hub hf://acme/made mnt
has_state mnt/bad.bin complete || fail "$(state_of mnt/bad.bin)"
diff -r tree mnt
