#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# pin and evict know files of the Hub as well: by directory of a mount, which is opened
# again with the mount's own source, and by hf://.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 getfattr

mkdir tree
random_file 3000000 tree/kept.bin
random_file 3000000 tree/other.bin
start_hub --repo "model:acme/made=$T/tree"
mount_hub hf://acme/made mnt

larder pin mnt 'kept*' > said 2> said.err || fail "$(cat said)"
[ ! -s said.err ] || fail "$(cat said.err)"
grep -q "^pinned 2.9 MiB in 1 file of hf://acme/made" said || fail "$(cat said)"
diff -r tree mnt
wait_for 60 has_state mnt/kept.bin complete
wait_for 60 has_state mnt/other.bin complete
! larder evict -y mnt > said || fail "what is pinned was left, but exit 0"
grep -q "^evicted 2.9 MiB in 1 blob" said || fail "$(cat said)"
has_state mnt/kept.bin complete || fail "a pinned file has gone"
has_state mnt/other.bin cold || fail "the other stays"
larder unpin -o "cache=$T/cache" hf://acme/made > said || fail "$(cat said)"
larder evict -y mnt > said || fail "$(cat said)"
has_state mnt/kept.bin cold || fail "an unpinned file stays"
drop_caches
diff -r tree mnt
umount_dataset mnt
