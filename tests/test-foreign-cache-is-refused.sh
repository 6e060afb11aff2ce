#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A cache directory of another format, one that holds other things, a file,
# one that everybody can write: refused in words that name it, nothing in it is
# touched, nothing gets mounted.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root

mkdir tree mnt
echo one > tree/file
publish_tree tree mirror data

refused() {
	expect_fail "$2" larder mount -c larder.conf \
		-o "cache=$T/$1,key=$T/test.key.pub" "mirror#data" mnt
	! mountpoint -q mnt || fail "mounted with $1"
}

mount_dataset "mirror#data" mnt "cache=$T/newer"
cat mnt/file > /dev/null
umount_dataset mnt
echo 'larder-cache 9' > newer/larder-cache
find newer -type f -exec md5sum {} + | sort > before
refused newer "newer.*'larder-cache 9'.*'larder-cache 1'"
find newer -type f -exec md5sum {} + | sort | cmp - before ||
	fail "a cache of another format was changed"

mkdir photos
echo precious > photos/holiday
refused photos "photos.*(not empty|other things|holds)"
[ "$(ls photos)" = holiday ] || fail "photos now holds $(ls photos)"

echo text > plain
refused plain "plain"
[ "$(cat plain)" = text ]

mkdir -m 777 open
refused open "open.*everybody can write"
