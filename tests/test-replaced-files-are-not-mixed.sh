#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A file without digests of its parts is replaced on its server, by one of the same length, while
# it is read: an error that says so, never a byte of the other version. When the first version
# is back, the rest is read.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net nginx python3 curl getfattr

mkdir tree www
random_file $((12 << 20)) tree/model.bin
cp -p tree/model.bin www/
random_file $((12 << 20)) other
touch -d '2020-01-01' other
start_nginx www
start_hub --repo "model:acme/made=$T/tree"
hub_faults "{\"fault\": \"location\", \"route\": \"resolve\", \"location\": \"$nginx_url/model.bin\"}"
mount_hub hf://acme/made mnt timeout=10s

head -c 500000 mnt/model.bin | cmp -n 500000 - tree/model.bin
# Renamed over it: whoever has the old one open goes on with it.
cp -p other www/model.new
mv www/model.new www/model.bin
drop_caches
! cat mnt/model.bin > out 2> said || fail "it was read"
head -c "$(stat -c %s out)" tree/model.bin | cmp - out || fail "mixed"
[ "$(stat -c %s out)" -lt $((12 << 20)) ] || fail "all of it was here"
larder_error mnt/model.bin | grep -q 'replaced on the server' ||
	fail "the error is '$(larder_error mnt/model.bin)'"
cp -p tree/model.bin www/model.bin
is_right() { cmp -s tree/model.bin mnt/model.bin 2> /dev/null; }
wait_for 30 is_right
wait_for 30 has_state mnt/model.bin complete
umount_dataset mnt
