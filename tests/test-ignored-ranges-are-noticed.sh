#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A server that ignores Range and sends the whole file, from
# the start or from the third request on; one that answers with another range,
# another total, a body too short or too long: right bytes or an error, and
# no flood of requests.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

size=$((5 * 1048576 + 123))
mkdir tree
random_file $size tree/file
publish_tree tree mirror range
start_httpd mirror
pack=$(bytes_of mirror/packs)

# One pass of the pack serves all of its chunks.
for from in 1 3; do
	httpd_control "clear&add=ignore_range&path=/packs/*&from=$from"
	httpd_forget
	mount_dataset "$httpd_url#range" mnt "cache=$T/cache.$from"
	random_reads -t 8 -n 200 tree/file mnt/file
	[ "$(httpd_bytes /packs/)" -le $((2 * pack)) ] ||
		fail "$(httpd_bytes /packs/) bytes for a pack of $pack"
	httpd_forget
	cmp tree/file mnt/file
	[ "$(httpd_requests /packs/)" -eq 0 ] || fail "asked again"
	umount_dataset mnt
done

# Once wrong is tried again; always wrong is an error, never other bytes.
for fault in bad_content_range bad_total 'short_body&n=70000' 'long_body&n=9'; do
	rm -rf cache
	httpd_control "clear&add=$fault&path=/packs/*&times=1"
	mount_dataset "$httpd_url#range" mnt
	cmp tree/file mnt/file || fail "$fault once"
	umount_dataset mnt
	rm -rf cache
	httpd_control "clear&add=$fault&path=/packs/*"
	httpd_forget
	mount_dataset "$httpd_url#range" mnt timeout=3s
	expect_errno "$EIO|$ETIMEDOUT" cat mnt/file
	[ "$(httpd_requests /packs/)" -le 80 ] ||
		fail "$fault: $(httpd_requests /packs/) requests"
	httpd_control clear
	wait_for 20 cmp tree/file mnt/file
	umount_dataset mnt
done
