#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The first of two mirrors is silent on packs, stalls in a body, trickles or
# crawls: it is left for the second one long before a reader's time
# is over, and the bytes are right. A server that always takes long to answer is
# not taken for a stalled one.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir tree
random_file 6000000 tree/file
publish_tree tree mirror stall
start_httpd mirror
good_url=$httpd_url
start_httpd mirror
cat > two.conf <<CONF
[larder]
cache = $T/cache
key = $T/test.key.pub
timeout = 60s
[stall]
mirror = $httpd_url
mirror = $good_url
CONF

# The last rate is too slow for any chunk in a third of the time, and not so slow
# that all of them together would be.
for fault in silent 'stall_after&n=1000' 'trickle&n=10' 'trickle&n=12000'; do
	rm -rf cache
	mkdir -p mnt
	httpd_control "clear"
	httpd_forget
	larder mount -c two.conf stall mnt > /dev/null
	ls mnt > /dev/null
	httpd_control "clear&add=$fault&path=/packs/*"
	cmp tree/file mnt/file
	[ "$(httpd_log_sum 'r["bytes"] > 245760' /packs/)" = 0 ] ||
		fail "$fault: a chunk was waited for"
	umount_dataset mnt
done

rm -rf cache
httpd_control 'clear&add=delay&n=1500&path=/packs/*'
httpd_forget
mount_dataset "$httpd_url#stall" mnt timeout=12s
cmp tree/file mnt/file
[ "$(httpd_log_sum 'r["status"] != 206' /packs/)" = 0 ] ||
	fail "requests were given up"
