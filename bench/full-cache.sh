#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# From `larder mount` to its first answer with a cache that knows a million
# chunks, its index not in memory, against an empty one.
#
#   bench/full-cache.sh [CHUNKS]
#
# SEED_INDEX names tests/seed-index of a build.
. "$(dirname "$0")/lib.sh"
chunks=${1:-1000000}

mkdir "$work/tree" "$work/mnt"
echo hello > "$work/tree/file"
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n one -k "$work/key" "$work/tree" "$work/mirror" > /dev/null
"${SEED_INDEX:-tests/seed-index}" "$work/full" "$chunks"

start() {
	"$LARDER" mount -o "cache=$1,key=$work/key.pub" "$work/mirror#one" \
		"$work/mnt"
	cat "$work/mnt/file"
}
measure() {
	local took
	drop_caches
	took=$(seconds start "$1")
	"$LARDER" umount "$work/mnt"
	echo "$took"
}
full=() empty=()
for i in 1 2 3; do
	full+=("$(measure "$work/full")")
	rm -rf "$work/empty"
	empty+=("$(measure "$work/empty")")
done
row "mount, $chunks chunks" "$(median "${full[@]}")" "an empty cache" \
	"$(median "${empty[@]}")"
