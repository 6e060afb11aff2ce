#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
#
# One byte more at the start of a large file: the second publish stores, and a
# node that holds version 1 fetches, less than 10 MiB. Random data and text.
# LARDER_TEST_FULL=1: files of 1 GiB.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

size=$((80 << 20))
[ -z "${LARDER_TEST_FULL-}" ] || size=$((1 << 30))
little=$((10 << 20))
mkdir tree
random_file $size tree/random
text_file $size tree/text
publish_tree tree mirror grows
stored=$(bytes_of mirror)
start_nginx mirror
mount_dataset "$nginx_url#grows" mnt
cat mnt/* > /dev/null
[ "$(nginx_bytes packs/)" -gt $((size / 2)) ] || fail "who sent the data?"
umount_dataset mnt

for file in random text; do
	{ printf x; cat tree/$file; } > tree/new
	mv tree/new tree/$file
	publish_tree tree mirror grows
	grown=$(($(bytes_of mirror) - stored))
	stored=$((stored + grown))
	[ $grown -lt $little ] || fail "$file: the mirror grew by $grown"
	nginx_forget
	mount_dataset "$nginx_url#grows" mnt
	cmp tree/random mnt/random
	cmp tree/text mnt/text
	fetched=$(nginx_bytes)
	[ "$fetched" -lt $little ] || fail "$file: fetched $fetched"
	umount_dataset mnt
	echo "$file: stored $grown, fetched $fetched of $size"
done
