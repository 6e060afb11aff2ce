#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Publishing text and random data, against
# `tar c TREE | zstd -3 -T2 | openssl dgst -sha256` of the same tree, which
# stores nothing, in pairs; and the peak memory of the publisher. The mirror
# is on the disk of BENCH_DIR, and everything is synced to it.
#
#   bench/publish.sh [MIB [PAIRS]]      MIB of each kind, 1024 by default
. "$(dirname "$0")/lib.sh"
mib=${1:-1024} pairs=${2:-3}

mkdir -p "$work/tree"
text $((mib << 20)) > "$work/tree/text"
head -c $((mib << 20)) /dev/urandom > "$work/tree/random"
"$LARDER" keygen "$work/key" > /dev/null

pipe() { tar c -C "$work" tree | zstd -q -3 -T2 | openssl dgst -sha256; }
publish() {
	/usr/bin/time -o "$work/peak" -f %M \
		"$LARDER" publish -n data -k "$work/key" "$work/tree" "$work/mirror"
}
lard=() other=() peak=0
cat "$work"/tree/* > /dev/null
for ((i = 0; i < pairs; i++)); do
	rm -rf "$work/mirror"
	sync
	lard+=("$(seconds publish)")
	[ "$(< "$work/peak")" -le "$peak" ] || peak=$(< "$work/peak")
	other+=("$(seconds pipe)")
done
row "publish ${mib} + ${mib} MiB" "$(median "${lard[@]}")" \
	"tar | zstd -3 | sha256" "$(median "${other[@]}")"
echo "peak memory $peak KiB"
again=$(seconds publish)
echo "nothing changed: $again s"
