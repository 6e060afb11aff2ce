#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Nobody unpacks on the way: larder never asks for an encoding,
# a .gz file is what it is, and a server that says its answers are gzip is
# believed to be broken: right bytes or an error.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir tree
text_file 3000000 tree/text
gzip -k tree/text
publish_tree tree mirror gzip
start_httpd mirror

httpd_control "clear&add=gzip"
mount_dataset "$httpd_url#gzip" mnt
compare_trees tree mnt
umount_dataset mnt
[ "$(httpd_log_sum 'r["accept_encoding"] not in (None, "identity")')" = 0 ] ||
	fail "asked for an encoding"

# Whatever was asked: heads, objects and packs all say gzip.
rm -rf cache
httpd_control "clear&add=gzip&n=1&path=/packs/*"
mount_dataset "$httpd_url#gzip" mnt timeout=3s
for name in text text.gz; do
	cmp tree/$name mnt/$name || expect_errno "$EIO" cat mnt/$name
done
