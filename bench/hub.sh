#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A model of a Hugging Face Hub (imitated; nginx is its CDN), on loopback:
# mount to first byte; a cold file against curl with eight connections; a warm
# file by mmap against the bare file; sixteen processes that map the same cold
# file from an origin of 100 MB/s, against one.
#
#   bench/hub.sh [MIB] [PAIRS]
. "$(dirname "$0")/lib.sh"
mib=${1:-1024} pairs=${2:-3}
top=$(cd "$(dirname "$0")/.." && pwd)
file=model.safetensors

model() { # DIR MIB
	mkdir -p "$1"
	echo '{"model_type": "bench"}' > "$1/config.json"
	python3 - "$1/$file" $(($2 << 20)) <<-'P'
		import json, os, struct, sys
		size = int(sys.argv[2])
		head = json.dumps({"weights": {"dtype": "U8", "shape": [size],
		                   "data_offsets": [0, size]}}).encode()
		head += b" " * (-len(head) % 8)
		with open(sys.argv[1], "wb") as out:
		    out.write(struct.pack("<Q", len(head)) + head)
		    for _ in range(size >> 20):
		        out.write(os.urandom(1 << 20))
	P
}

start_hub() {
	mkdir -p "$work/hub"
	PYTHONDONTWRITEBYTECODE=1 python3 "$top/tests/hub/hub.py" \
		--dir "$work/hub" --repo "model:acme/large=$work/www/large" \
		--repo "model:acme/held=$work/www/held" &
	hub_pid=$!
	until [ -s "$work/hub/ports" ]; do sleep 0.05; done
	HF_ENDPOINT=$(head -n 1 "$work/hub/ports")
	export HF_ENDPOINT
	for name in large held; do # it computes digests now
		curl -so /dev/null "$HF_ENDPOINT/api/models/acme/$name/tree/main"
	done
}

cdn() { # URL
	curl -so /dev/null "$HF_ENDPOINT/_/set" -d "{\"cdn_url\": \"$1\"}"
}

fresh_mount() { # NAME
	! mountpoint -q "$work/mnt" || "$LARDER" umount "$work/mnt"
	rm -rf "$work/cache"
	mkdir -p "$work/mnt"
	drop_caches
	"$LARDER" mount -o "cache=$work/cache" "hf://acme/$1" "$work/mnt" > /dev/null
}

first_byte() {
	"$LARDER" mount -o "cache=$work/cache" hf://acme/large "$work/mnt"
	head -c 1 "$work/mnt/config.json"
}

eight() { # URL BYTES: one file, eight connections
	local i pids=() part=$((($2 + 7) / 8))
	rm -f "$work"/part.*
	for i in 0 1 2 3 4 5 6 7; do
		curl -s -o "$work/part.$i" \
			-r $((i * part))-$((i * part + part - 1)) "$1" &
		pids+=($!)
	done
	wait "${pids[@]}"
}

pages() { # FILE: one byte of each
	"$work/pages" "$1"
}

many() { # COUNT FILE
	local i pids=()
	for ((i = 0; i < $1; i++)); do
		pages "$2" > /dev/null & pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || { echo "a process failed" >&2; return 1; }
	done
}

is_complete() {
	[ "$(getfattr --absolute-names --only-values -n user.larder.state "$1")" = complete ]
}

${CC:-cc} -O2 -o "$work/pages" "$top/bench/pages.c"
model "$work/www/large" "$mib"
model "$work/www/held" 256
start_nginx "$work/www"
start_hub
bytes=$(stat -c %s "$work/www/large/$file")
cdn "$url/large"

mkdir -p "$work/mnt"
: > "$work/hub/log"
took=$(seconds first_byte)
asked=$(wc -l < "$work/hub/log")
two=$(seconds curl -s "$HF_ENDPOINT/api/models/acme/large/tree/main" \
	"$HF_ENDPOINT/acme/large/resolve/main/config.json")
row "mount to first byte" "$took" "curl of listing and file" "$two"
echo "requests from mount to first byte: $asked"

lard=() other=()
warm_memory $((3 * mib))
for ((i = 0; i < pairs; i++)); do
	fresh_mount large
	lard+=("$(seconds cat "$work/mnt/$file")")
	drop_caches
	other+=("$(seconds eight "$url/large/$file" "$bytes")")
done
row "cold ${mib} MiB" "$(median "${lard[@]}")" "curl -r, 8 connections" "$(median "${other[@]}")"
rm -f "$work"/part.*

until is_complete "$work/mnt/$file"; do sleep 0.2; done
for where in disk memory; do
	lard=() other=()
	if [ $where = memory ]; then
		pages "$work/mnt/$file" > /dev/null
		pages "$work/www/large/$file" > /dev/null
	fi
	for ((i = 0; i < pairs; i++)); do
		[ $where = memory ] || drop_caches
		lard+=("$(seconds pages "$work/mnt/$file")")
		[ $where = memory ] || drop_caches
		other+=("$(seconds pages "$work/www/large/$file")")
	done
	row "warm mmap from $where" "$(median "${lard[@]}")" "bare file" "$(median "${other[@]}")"
done

start_proxy 1 100000000
cdn "$far_url/held"
lard=() other=()
for ((i = 0; i < pairs; i++)); do
	fresh_mount held
	other+=("$(seconds many 1 "$work/mnt/$file")")
	fresh_mount held
	lard+=("$(seconds many 16 "$work/mnt/$file")")
done
row "16 processes, 100 MB/s" "$(median "${lard[@]}")" "one process" "$(median "${other[@]}")"
