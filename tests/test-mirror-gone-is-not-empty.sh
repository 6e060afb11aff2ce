#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The mirror is gone: what is warm is read and everything is listed; a cold
# read fails with EIO, never ENOENT, within the time-out, at once while the
# mirror is known to be dead, and the file says which mirror it was.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3 getfattr

mkdir tree
for name in warm cold other; do random_file 3000000 tree/$name; done
publish_tree tree mirror gone
start_nginx mirror
mount_dataset "$nginx_url#gone" mnt timeout=6s
cmp tree/warm mnt/warm
stop_nginx

cold() {
	expect_errno "$EIO" cat "mnt/$1"
}
within 8000 cold cold
drop_caches
cmp tree/warm mnt/warm
[ "$(ls mnt)" = "$(ls tree)" ] || fail "not everything is listed"
within 1500 cold other
within 1500 cold cold
larder_error mnt/cold | grep -qF "127.0.0.1:$nginx_port" ||
	fail "the error is '$(larder_error mnt/cold)'"
[ "$(stat -c %s mnt/cold)" = 3000000 ] || fail "another size"
umount_dataset mnt

# Still gone when larder starts: from the last good head.
within 8000 mount_dataset "$nginx_url#gone" mnt timeout=6s
cmp tree/warm mnt/warm
[ "$(ls mnt)" = "$(ls tree)" ] || fail "not everything is listed"
within 8000 cold cold
expect_fail "127.0.0.1:$nginx_port" larder mount -c "$T/larder.conf" -o \
	"cache=$T/another,key=$T/test.key.pub,timeout=3s" \
	"$nginx_url#gone" "$(mktemp -d)"

# Back again: no restart is needed.
nginx -p "$(dirname "$nginx_log")/" -e error.log -c conf
nginx_pids+=("$(cat "$(dirname "$nginx_log")/nginx.pid")")
wait_for 60 cmp tree/cold mnt/cold
! larder_error mnt/cold || fail "the error stays"
