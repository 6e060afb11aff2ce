#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Cold sequential read of text over nginx on loopback, against
# `curl | zstd -d | openssl dgst -sha256` of the same data, in pairs, and against
# `rclone mount`, where installed, which reads it uncompressed.
#
#   bench/cold-read.sh [MIB] [PAIRS]
. "$(dirname "$0")/lib.sh"
mib=${1:-1024} pairs=${2:-3}

mkdir -p "$work/www/tree" "$work/mnt"
text $((mib << 20)) > "$work/www/tree/text"
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n text -k "$work/key" "$work/www/tree" "$work/www/mirror" > /dev/null
zstd -q -3 -T2 "$work/www/tree/text" -o "$work/www/text.zst"
start_nginx "$work/www"

pipe() { curl -s "$url/text.zst" | zstd -dc | openssl dgst -sha256; }
through_rclone() {
	rclone mount :http:tree "$work/mnt" --http-url "$url" --read-only \
		--daemon --config /dev/null
	cloned+=("$(seconds cat "$work/mnt/text")")
	fusermount3 -uz "$work/mnt"
}
lard=() other=() cloned=()
warm_memory $((3 * mib))
for ((i = 0; i < pairs; i++)); do
	rm -rf "$work/cache"
	"$LARDER" mount -o "cache=$work/cache,key=$work/key.pub" \
		"$url/mirror#text" "$work/mnt" > /dev/null
	lard+=("$(seconds cat "$work/mnt/text")")
	"$LARDER" umount "$work/mnt"
	other+=("$(seconds pipe)")
	! command -v rclone > /dev/null || through_rclone
done
row "cold sequential ${mib} MiB" "$(median "${lard[@]}")" "curl | zstd -d | sha256" "$(median "${other[@]}")"
[ ${#cloned[@]} -eq 0 ] ||
	row "cold sequential ${mib} MiB" "$(median "${lard[@]}")" "rclone mount" "$(median "${cloned[@]}")"
