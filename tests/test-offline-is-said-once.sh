#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The network goes: one line in the log, however many datasets of the mirror
# are read; cold reads fail in time with the reason, warm ones and listings go
# on. It comes back: one line, and everything is read without a restart. A command
# says what fails and no more; limits that the disk has not got are told of where
# somebody serves or looks at the cache.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3 getfattr

mkdir tree mnt
for name in warm cold other; do random_file 1500000 tree/$name; done
publish_tree tree mirror one
publish_tree tree mirror two
start_httpd mirror
first=$httpd_pid
cat > larder.conf <<CONF
[larder]
cache = $T/cache
key = $T/test.key.pub
timeout = 4s
[one]
mirror = $httpd_url
[two]
mirror = $httpd_url
CONF
larder mount -f -c larder.conf mnt 2> mnt.log &
wait_for 20 mountpoint -q mnt
cmp tree/warm mnt/one/warm
cmp tree/warm mnt/two/warm

lines() { grep -c "$1" mnt.log || true; }
[ "$(lines offline)" = 0 ] || fail "offline at the start"
kill "$first"
wait_for 60 lib_has_ended "$first"
is_offline() {
	expect_errno "$EIO|$ETIMEDOUT" cat mnt/one/cold mnt/two/other
	[ "$(lines offline:)" -gt 0 ]
}
wait_for 60 is_offline
larder_error mnt/one/cold | grep -q 'connection refused' ||
	fail "the error is '$(larder_error mnt/one/cold)'"
for _ in 1 2 3; do
	expect_errno "$EIO|$ETIMEDOUT" cat mnt/two/cold mnt/one/other
done
drop_caches
cmp tree/warm mnt/two/warm
[ "$(ls mnt/one)" = "$(ls tree)" ] || fail "the listing is not complete"
[ "$(lines offline:)" = 1 ] || fail "$(lines offline:) lines of going offline"
[ "$(lines 'online again')" = 0 ] || fail "online without a mirror"

start_httpd mirror --port "${httpd_url##*:}"
for name in one/cold two/cold two/other; do
	wait_for 60 cmp -s "tree/${name#*/}" "mnt/$name"
done
[ "$(lines offline:)" = 1 ] || fail "$(lines offline:) lines of going offline"
[ "$(lines 'online again')" = 1 ] ||
	fail "$(lines 'online again') lines of coming back"
umount_dataset mnt

: > empty.conf

# Long enough for a mirror to be known as dead.
for command in ls mount; do
	where=
	[ $command = ls ] || where=mnt
	# shellcheck disable=SC2086 # no word, or one
	! larder $command -c empty.conf \
		-o "cache=$T/cold,key=test.key.pub,timeout=7s" \
		"http://127.0.0.1:1/m#one" $where > said 2>&1 ||
		fail "$command succeeded"
	[ "$(wc -l < said)" = 1 ] || fail "$command: $(cat said)"
	grep -q "larder $command: .*refused" said || fail "$command: $(cat said)"
done

# told_of_limits COUNT COMMAND...
told_of_limits() {
	"${@:2}" > said 2>&1 || fail "$(cat said)"
	[ "$(grep -c 'limits brought down' said)" = "$1" ] || fail "$(cat said)"
}
sed -i 's/^cache.*/&\nsize = 1000T/' larder.conf
told_of_limits 0 larder ls -c larder.conf one
told_of_limits 0 larder cat -c larder.conf one:warm
told_of_limits 1 larder status -c larder.conf
told_of_limits 1 larder mount -c larder.conf mnt
