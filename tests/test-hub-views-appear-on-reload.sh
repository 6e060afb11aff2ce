#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# SIGHUP: a new section with source hf:// brings its views into a running mount;
# what they have opened is no section that was removed, and changed rules are
# reported.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl

start_hub --fixture model
mkdir -p one mnt
echo first > one/file
publish_tree one mirror one
cat > larder.conf <<CONF
cache = $T/cache
key = test.key.pub
[one]
mirror = mirror
CONF
larder mount -f -c larder.conf mnt 2> log &
daemon=$!
wait_for 20 test -e mnt/one/file
said() { grep -q "$1" log; }
reload() {
	: > log
	kill -HUP "$daemon"
	wait_for 20 said 'configuration was read again'
}
cat >> larder.conf <<CONF
[site/hf]
source = hf://
CONF
reload
wait_for 20 test -d mnt/site/hf/models
cat mnt/site/hf/models/acme/tiny/config.json > /dev/null
cat mnt/site/hf/hub/models--acme--tiny/refs/main > /dev/null
reload
! grep -Eq 'removed|changed' log || fail "$(cat log)"
echo 'deny = acme' >> larder.conf
reload
said '\[site/hf\] was changed' || fail "$(cat log)"
! said removed || fail "$(cat log)"
cat mnt/site/hf/models/acme/tiny/config.json mnt/one/file > /dev/null
umount_dataset mnt
wait "$daemon"
