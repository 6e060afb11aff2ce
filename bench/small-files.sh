#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Cold `cp -r` of small files over nginx, against `cp -r` on the bare disk and,
# where installed, `rclone mount` of the tree, all from a cold page cache; the
# last row says what would be had there if the files came from the page cache.
# Copies go to another filesystem, memory: what larder shows can never be copied
# within one, where the kernel copies without a reader; and ext4 is slow to make
# files where others were removed within the last minutes.
#
#   bench/small-files.sh [FILES] [PAIRS]
. "$(dirname "$0")/lib.sh"
files=${1:-10000} pairs=${2:-3}

mkdir -p "$work/www/tree" "$work/mnt"
small_tree "$work/www/tree" "$files"
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n small -k "$work/key" "$work/www/tree" "$work/www/mirror" > /dev/null
start_nginx "$work/www"

elsewhere=$(mktemp -d /dev/shm/larder-bench.XXXXXX)
# copy FROM: seconds
copy() {
	rm -rf "$elsewhere/copy"
	[ "${2-}" = warm ] || drop_caches
	seconds cp -r "$1" "$elsewhere/copy"
}
lard=() bare=() warm=() rclone=()
for ((i = 0; i < pairs; i++)); do
	"$LARDER" mount -o "cache=$work/cache$i,key=$work/key.pub" \
		"$url/mirror#small" "$work/mnt" > /dev/null
	lard+=("$(copy "$work/mnt")")
	diff -r "$work/www/tree" "$elsewhere/copy" > /dev/null
	"$LARDER" umount "$work/mnt"
	bare+=("$(copy "$work/www/tree")")
	warm+=("$(copy "$work/www/tree" warm)")
done
row "cold cp -r $files files" "$(median "${lard[@]}")" "bare disk" "$(median "${bare[@]}")"
if command -v rclone > /dev/null; then
	rclone mount ":http:tree" "$work/mnt" --http-url "$url" --read-only \
		--daemon --config /dev/null
	rclone+=("$(copy "$work/mnt")")
	fusermount3 -u "$work/mnt"
	row "cold cp -r $files files" "$(median "${lard[@]}")" "rclone mount" "${rclone[0]}"
	row "warm cp -r from the bare disk" "$(median "${warm[@]}")" "rclone mount" "${rclone[0]}"
fi
