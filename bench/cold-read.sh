#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Cold sequential read of text over nginx on loopback, against
# `curl | zstd -d | openssl dgst -sha256` of the same data, in pairs.
#
#   bench/cold-read.sh [MIB] [PAIRS]
. "$(dirname "$0")/lib.sh"
mib=${1:-1024} pairs=${2:-3}

mkdir -p "$work/tree" "$work/mnt" "$work/www"
text $((mib << 20)) > "$work/tree/text"
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n text -k "$work/key" "$work/tree" "$work/www/mirror" > /dev/null
zstd -q -3 -T2 "$work/tree/text" -o "$work/www/text.zst"
start_nginx "$work/www"

pipe() { curl -s "$url/text.zst" | zstd -dc | openssl dgst -sha256; }
lard=() other=()
warm_memory $((3 * mib))
for ((i = 0; i < pairs; i++)); do
	rm -rf "$work/cache"
	"$LARDER" mount -o "cache=$work/cache,key=$work/key.pub" \
		"$url/mirror#text" "$work/mnt" > /dev/null
	lard+=("$(seconds cat "$work/mnt/text")")
	"$LARDER" umount "$work/mnt"
	other+=("$(seconds pipe)")
done
row "cold sequential ${mib} MiB" "$(median "${lard[@]}")" "curl | zstd -d | sha256" "$(median "${other[@]}")"
