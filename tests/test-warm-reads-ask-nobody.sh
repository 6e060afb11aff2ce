#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One small file brings a bounded number of bytes; what was read once is
# read again without a request, after the page cache is gone, by a second
# mount of the same cache, and after a new mount.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

mkdir tree tree/small
for i in $(seq 400); do random_file 20000 tree/small/$i; done
random_file $((64 << 20)) tree/large
publish_tree tree mirror warm
start_nginx mirror
mount_dataset "$nginx_url#warm" mnt

cmp tree/small/7 mnt/small/7
[ "$(nginx_bytes)" -lt $((9 << 20)) ] || fail "20 KB brought $(nginx_bytes)"
[ "$(nginx_requests packs/)" -le 2 ] || fail "20 KB took many requests"
cat mnt/large > /dev/null
cat mnt/small/* > /dev/null
nginx_sent_once
requests=$(nginx_requests packs/)
[ "$requests" -le 60 ] || fail "$requests requests for 72 MB"

nobody_is_asked() {
	nginx_forget
	compare_trees tree "$1"
	[ "$(nginx_requests '(objects|places|packs)/')" -eq 0 ] ||
		fail "asked $1: $(head -n 3 "$nginx_log")"
}
nobody_is_asked mnt
drop_caches
nobody_is_asked mnt
mount_dataset "$nginx_url#warm" second
nobody_is_asked second
umount_dataset second
umount_dataset mnt
mount_dataset "$nginx_url#warm" mnt
nobody_is_asked mnt
[ "$(getfattr --only-values -n user.larder.state mnt/large)" = complete ] ||
	fail "not complete"
