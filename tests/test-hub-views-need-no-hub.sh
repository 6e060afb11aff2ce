#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What was loaded once is served by the node alone: after a restart, on another
# mount and by another process, with the Hub stopped, in every view, without a
# request and without an error. What is not here is an error soon.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl

start_hub --fixture model
mount_hub hf:// mnt
cp -r mnt/models/acme/tiny copy
folder=hub/models--acme--tiny
commit=$(cat "mnt/$folder/refs/main")
cat "mnt/$folder/refs/v1.0" > /dev/null
umount_dataset mnt

all_is_there() {
	diff -r copy "$1/models/acme/tiny"
	diff -r copy "$1/models/acme/tiny@$commit"
	[ "$(cat "$1/$folder/refs/main")" = "$commit" ]
	diff -r copy "$1/$folder/snapshots/$commit"
	ls "$1/$folder/snapshots/$(cat "$1/$folder/refs/v1.0")" > /dev/null
}
hub_forget
mount_hub hf:// mnt
all_is_there mnt
mount_hub hf://acme/tiny single
diff -r copy single
umount_dataset single
umount_dataset mnt
[ "$(hub_asked)" = 0 ] || fail "asked again: $(cat "$hub_log")"

kill "$hub_pid"
wait_for 60 lib_has_ended "$hub_pid"
drop_caches
mount_hub hf:// mnt
mount_hub hf:// second
all_is_there mnt &
other=$!
all_is_there second
wait "$other"
! grep -q error mount.err || fail "$(cat mount.err)"
# Nobody answers: not the same as not there.
expect_fail 'Input/output error' cat mnt/models/acme/never/config.json
expect_fail 'Input/output error' cat mnt/hub/models--acme--never/refs/main
diff -r copy mnt/models/acme/tiny
umount_dataset second
umount_dataset mnt

# A commit of the Hub that the node has by the name of a branch.
export HF_HUB_OFFLINE=1
mount_hub "hf://acme/tiny@$commit" mnt
diff -r copy mnt
umount_dataset mnt
mount_hub hf:// mnt
all_is_there mnt
expect_fail 'Input/output error' ls mnt/models/acme/never
umount_dataset mnt
