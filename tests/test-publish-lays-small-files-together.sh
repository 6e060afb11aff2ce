#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Files up to 128 KiB lie in one blob, a larger one is a blob of its own. All are
# so small that a blob is one chunk.
. "${top_srcdir:-.}/tests/lib.sh"

blobs() { # NUMBER
	rm -rf mirror
	publish_tree tree mirror set
	grep -q " new in $1 chunk" publish.out || fail "$(cat publish.out)"
}

mkdir tree
head -c 131072 /dev/urandom > tree/largest
echo small > tree/small
blobs 1
head -c 131073 /dev/urandom > tree/large
blobs 2
head -c 131073 /dev/urandom > tree/larger
blobs 3
