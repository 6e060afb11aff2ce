#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Cold `cp -r` of small files over nginx, against `cp -r` on the bare disk
# with a cold page cache and, where installed, `rclone mount` of the tree; the
# last row says what would be had there if the files came from the page cache.
#
#   bench/small-files.sh [FILES] [PAIRS]
. "$(dirname "$0")/lib.sh"
files=${1:-10000} pairs=${2:-3}

mkdir -p "$work/www/tree" "$work/mnt"
small_tree "$work/www/tree" "$files"
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n small -k "$work/key" "$work/www/tree" "$work/www/mirror" > /dev/null
start_nginx "$work/www"

copy() { cp -r "$1" "$work/copy"; }
lard=() bare=() warm=() rclone=()
for ((i = 0; i < pairs; i++)); do
	rm -rf "$work/cache" "$work/copy"
	"$LARDER" mount -o "cache=$work/cache,key=$work/key.pub" \
		"$url/mirror#small" "$work/mnt" > /dev/null
	drop_caches
	lard+=("$(seconds copy "$work/mnt")")
	diff -r "$work/www/tree" "$work/copy" > /dev/null
	"$LARDER" umount "$work/mnt"
	rm -rf "$work/copy"
	drop_caches
	bare+=("$(seconds copy "$work/www/tree")")
	rm -rf "$work/copy"
	warm+=("$(seconds copy "$work/www/tree")")
	rm -rf "$work/copy"
done
row "cold cp -r $files files" "$(median "${lard[@]}")" "bare disk" "$(median "${bare[@]}")"
if command -v rclone > /dev/null; then
	rclone mount ":http:tree" "$work/mnt" --http-url "$url" --read-only \
		--daemon --config /dev/null
	rclone+=("$(seconds copy "$work/mnt")")
	fusermount3 -u "$work/mnt"
	row "cold cp -r $files files" "$(median "${lard[@]}")" "rclone mount" "${rclone[0]}"
	row "warm cp -r from the bare disk" "$(median "${warm[@]}")" "rclone mount" "${rclone[0]}"
fi
