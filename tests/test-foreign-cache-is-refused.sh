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

# on a FUSE filesystem: this one will do
mkdir tree/directory
publish_tree tree mirror data
mount_dataset "mirror#data" other
refused other/directory "other/directory.*network or FUSE filesystem \(FUSE\).*local disk"
umount_dataset other

# limits that make no sense
for size in 0 0% 1000 -1 -5G 99999999999T 101% much; do
	expect_fail "size: '$size' is (out of range|not a size)" larder mount -c larder.conf \
		-o "cache=$T/cache,key=$T/test.key.pub,size=$size" "mirror#data" mnt
	! mountpoint -q mnt || fail "mounted with size=$size"
done
expect_fail "min-free: '-1' is not a size" larder mount -c larder.conf \
	-o "cache=$T/cache,key=$T/test.key.pub,min-free=-1" "mirror#data" mnt
mount_dataset "mirror#data" mnt min-free=0
[ "$(cat mnt/file)" = one ]
umount_dataset mnt

# not writable: what is there is used, nothing new is kept
mount_dataset "mirror#data" mnt "cache=$T/frozen"
cat mnt/file > /dev/null
umount_dataset mnt
mount --bind frozen frozen
mount -o remount,bind,ro frozen
mount_dataset "mirror#data" mnt "cache=$T/frozen" -f > /dev/null &
wait_for 20 mountpoint -q mnt
[ "$(cat mnt/file)" = one ]
umount_dataset mnt
wait
grep -q "warning: cache: cache cannot be written" mount.err || fail "$(cat mount.err)"
umount frozen
