#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# larder prefetch against a cold sequential read of the same data, in pairs;
# and, on a link of 100 MB/s, a cold read while a prefetch runs on the
# same cache against the same read alone.
#
#   bench/prefetch.sh [MIB] [PAIRS]
. "$(dirname "$0")/lib.sh"
mib=${1:-512} pairs=${2:-3}

mkdir -p "$work/tree" "$work/mnt" "$work/www"
text $((mib << 20)) > "$work/tree/text"
for i in 1 2 3 4; do
	head -c $((64 << 20)) /dev/urandom > "$work/tree/random$i"
done
head -c $((24 << 20)) /dev/urandom > "$work/tree/wanted"
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n set -k "$work/key" "$work/tree" "$work/www/mirror" > /dev/null
start_nginx "$work/www"
options=cache=$work/cache,key=$work/key.pub

begin() {
	rm -rf "$work/cache"
	"$LARDER" mount -o "$options" "$1/mirror#set" "$work/mnt" > /dev/null
	ls "$work/mnt" > /dev/null
}
end() {
	"$LARDER" umount "$work/mnt"
}
prefetch() {
	"$LARDER" prefetch -o "$options" "$@" 2> /dev/null
}
ahead=() cold=()
warm_memory $((3 * mib))
for ((i = 0; i < pairs; i++)); do
	rm -rf "$work/cache"
	ahead+=("$(seconds prefetch "$url/mirror#set" text)")
	begin "$url"
	cold+=("$(seconds cat "$work/mnt/text")")
	end
done
row "prefetch ${mib} MiB" "$(median "${ahead[@]}")" "cold sequential read" "$(median "${cold[@]}")"

start_proxy 1 100000000
alone=() beside=()
for ((i = 0; i < pairs; i++)); do
	begin "$far_url"
	alone+=("$(seconds cat "$work/mnt/wanted")")
	end
	begin "$far_url"
	"$LARDER" prefetch -o "$options" "$far_url/mirror#set" 'random*' \
		> /dev/null 2>&1 &
	prefetching=$!
	sleep 1
	beside+=("$(seconds cat "$work/mnt/wanted")")
	kill -0 $prefetching || echo "the prefetch was over too soon" >&2
	kill $prefetching || true
	wait $prefetching || true
	end
done
row "read beside a prefetch" "$(median "${beside[@]}")" "alone, 100 MB/s" "$(median "${alone[@]}")"
