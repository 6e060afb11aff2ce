#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Somebody else has filled the cache's disk beyond what is to stay free: nothing
# is stored there, reads are right, and once there is room files are kept again.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires root

mkdir tree disk
random_file 3000000 tree/file
publish_tree tree mirror set
mount -t tmpfs -o size=64m tmpfs disk

# Ended, it has stored what it would.
read_file() {
	larder cat -c larder.conf -o "cache=$T/disk/cache,key=$T/test.key.pub" \
		-o min-free=24M mirror#set:file | cmp - tree/file
}
stored() { find disk/cache/blobs -type f -exec du -ck {} + | tail -1 | cut -f 1; }

head -c 48M /dev/zero > disk/filler
read_file
[ -z "$(stored)" ] || fail "stored although 16 of 64 MiB are free: $(stored) KiB"
rm disk/filler
read_file
[ "$(stored)" -ge 2900 ] || fail "not kept though there is room: $(stored) KiB"
