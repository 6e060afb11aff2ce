#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Many cold readers at once, each of a file of its own, from a server that is
# held to 100 MB/s in all (a sixteenth of it for each of the 16 connections
# that a mirror has): how much longer the slowest takes than the median, and how
# much memory of its own larder has at the end.
#
#   bench/fairness.sh [READERS] [MIB]
. "$(dirname "$0")/lib.sh"
readers=${1:-64} mib=${2:-8}

mkdir -p "$work/tree" "$work/mnt" "$work/www"
for ((i = 0; i < readers; i++)); do
	head -c $((mib << 20)) /dev/urandom > "$work/tree/$i"
done
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n fair -k "$work/key" "$work/tree" "$work/www/mirror" > /dev/null
nginx_extra='limit_rate 6250k;' # start_nginx reads it
: "$nginx_extra"
start_nginx "$work/www"

"$LARDER" mount -f -o "cache=$work/cache,key=$work/key.pub" \
	"$url/mirror#fair" "$work/mnt" > /dev/null &
larder=$!
until mountpoint -q "$work/mnt"; do sleep 0.1; done
ls "$work/mnt" > /dev/null
for ((i = 0; i < readers; i++)); do
	seconds cat "$work/mnt/$i" > "$work/took.$i" &
	pids[i]=$!
done
for ((i = 0; i < readers; i++)); do
	wait "${pids[i]}"
done
awk '/^Rss(Anon|Shmem)/ { kib += $2 } END { printf "memory %d MiB\n", kib / 1024 }' \
	"/proc/$larder/status"
mapfile -t took < <(sort -g "$work"/took.*)
row "$readers readers of $mib MiB" "${took[-1]}" "their median" \
	"$(median "${took[@]}")"
