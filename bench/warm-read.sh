#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What is in the cache, read by every way there is: the bare disk, larder with
# passthrough, larder without, and `rclone mount` with its own cache where it is
# installed. One file by fio and, on one descriptor, by 16 threads; small files by
# cp -r and find. The ways take turns within each round; the table shows the bare disk's
# median and what part of its speed the others reach. The first two rows have also a
# FUSE server that does nothing but splice the bare file: the most that is to be had without
# passthrough. Needs fio, libfuse and a C compiler.
#
#   bench/warm-read.sh [MIB] [ROUNDS] [FILES] [SECONDS of each random read]
. "$(dirname "$0")/lib.sh"
mib=${1:-1024} rounds=${2:-5} files=${3:-10000} seconds_each=${4:-3}

mkdir -p "$work/www/large" "$work/www/small"
head -c "${mib}M" /dev/urandom > "$work/www/large/data"
small_tree "$work/www/small" "$files"
"$LARDER" keygen "$work/key" > /dev/null
for name in large small; do
	"$LARDER" publish -n $name -k "$work/key" "$work/www/$name" "$work/mirror" > /dev/null
done

# ---- the ways: $large[WAY] is the file, $small[WAY] the tree, $below[WAY] what lies under it
declare -A large small below figures
ways=(bare passthrough nopassthrough)
for way in passthrough nopassthrough; do
	options="cache=$work/cache,key=$work/key.pub"
	[ $way = passthrough ] || options+=,nopassthrough
	for name in large small; do
		mkdir -p "$work/$way/$name"
		"$LARDER" mount -o "$options" "$work/mirror#$name" "$work/$way/$name" > /dev/null
	done
	large[$way]=$work/$way/large/data
	small[$way]=$work/$way/small
	cat "${large[$way]}" > /dev/null
done
blob=$(find "$work/cache/blobs" -type f -size "$((mib * 1024))k" | head -n 1)
: "${blob:?no file of the cache holds the whole file; is the disk large enough?}"
large[bare]=$blob
small[bare]=$work/www/small
for way in "${ways[@]}"; do below[$way]=$blob; done

if command -v rclone > /dev/null; then
	start_nginx "$work/www"
	mkdir "$work/rclone"
	rclone mount :http: "$work/rclone" --http-url "$url" --read-only --daemon --config /dev/null \
		--vfs-cache-mode full --cache-dir "$work/rclone-cache" --dir-cache-time 1h
	ways+=(rclone)
	large[rclone]=$work/rclone/large/data
	small[rclone]=$work/rclone/small
	cat "${large[rclone]}" > /dev/null
	below[rclone]=$(find "$work/rclone-cache" -type f -size +"$((mib / 2))M" | head -n 1)
fi

top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck disable=SC2046 # words
${CC:-cc} -O2 -o "$work/splice-server" "$top/bench/splice-server.c" $(pkg-config --cflags --libs fuse3)
mkdir "$work/splicing"
"$work/splice-server" "$blob" "$work/splicing" 2> /dev/null &
for ((i = 0; i < 50; i++)); do
	! mountpoint -q "$work/splicing" || break
	sleep 0.1
done
cat "/sys/class/bdi/$(mountpoint -d "$work/nopassthrough/large")/read_ahead_kb" \
	> "/sys/class/bdi/$(mountpoint -d "$work/splicing")/read_ahead_kb"
large[splicing]=$work/splicing/data below[splicing]=$blob
ways+=(splicing)

# The mark comes soon after the last byte; then an open is passed through.
is_passed() {
	local said
	exec 9< "${large[passthrough]}"
	said=$(getfattr --absolute-names --only-values -n user.larder.state "${large[passthrough]}")
	exec 9<&-
	[ "$said" = passthrough ]
}
for ((i = 0; i < 100; i++)); do
	! is_passed || break
	sleep 0.3
done
is_passed || echo "passthrough is not in use: $(
	getfattr --absolute-names --only-values -n user.larder.passthrough "$work/passthrough/large")" >&2

# ---- measures: each prints a speed
fio_speed() { # FILE FIO-OPTIONS...
	local file=$1
	shift
	fio --name=x --filename="$file" --readonly --invalidate=0 --output-format=json "$@" |
		python3 -c 'import json,sys; print("%.2f" % (json.load(sys.stdin)["jobs"][0]["read"]["bw_bytes"] / 2**20))'
}
sequential() { fio_speed "${large[$1]}" --rw=read --bs=1M; }
random_4k() { fio_speed "${large[$1]}" --rw=randread --bs=4k --runtime=$seconds_each --time_based; }
mapped() { fio_speed "${large[$1]}" --rw=read --bs=1M --ioengine=mmap; }
mapped_4k() { fio_speed "${large[$1]}" --rw=randread --bs=4k --ioengine=mmap --runtime=$seconds_each --time_based; }
sixteen() { # threads on one descriptor, each a stretch of its own in random order
	python3 - "${large[$1]}" <<'P'
import os, random, sys, threading, time
fd, block, count = os.open(sys.argv[1], os.O_RDONLY), 128 << 10, 16
share = os.fstat(fd).st_size // block // count
def run(i):
    order = list(range(i * share, (i + 1) * share))
    random.Random(i).shuffle(order)
    for at in order:
        os.pread(fd, block, at * block)
threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
start = time.monotonic()
for t in threads: t.start()
for t in threads: t.join()
print("%.2f" % (share * count * block / 2**20 / (time.monotonic() - start)))
P
}
per_second() { # COMMAND...: files per second
	awk -v n="$files" -v s="$(seconds "$@")" 'BEGIN { printf "%.2f\n", n / s }'
}
# into memory: see small-files.sh
elsewhere=$(mktemp -d /dev/shm/larder-bench.XXXXXX)
copy_small() {
	rm -rf "$elsewhere/copy"
	per_second cp -r "${small[$1]}" "$elsewhere/copy"
}
find_small() { per_second find "${small[$1]}" -ls; }

cold() { drop_caches; }
warm_below() { # the cached file in memory, nothing of the mount
	drop_caches
	cat "${below[$1]}" > /dev/null
}
as_it_is() { :; }

measure() { # TITLE UNIT PREPARE MEASURE
	local title=$1 unit=$2 prepare=$3 run=$4 way i bare
	for way in "${ways[@]}"; do figures[$way]=; done
	for ((i = 0; i < rounds; i++)); do
		for way in "${ways[@]}"; do
			$prepare "$way"
			figures[$way]+=" $($run "$way")"
		done
	done
	# shellcheck disable=SC2086 # lists of numbers
	bare=$(median ${figures[bare]})
	printf '%-34s %9.1f %-8s' "$title" "$bare" "$unit"
	for way in "${ways[@]:1}"; do
		# shellcheck disable=SC2086
		awk -v a="$(median ${figures[$way]})" -v b="$bare" 'BEGIN { printf " %13.3f", a / b }'
	done
	echo
}

warm_memory $((3 * mib))
printf '%-34s %18s' "$mib MiB, $files files, rounds: $rounds" "bare disk"
printf ' %13s' "${ways[@]:1}"
echo
measure "sequential, all cold" MiB/s cold sequential
measure "sequential, cache file in memory" MiB/s warm_below sequential
unset 'ways[-1]' # splicing, which has no small files
measure "random 4 KiB, all cold" MiB/s cold random_4k
measure "random 4 KiB, cache file in memory" MiB/s warm_below random_4k
measure "mmap from start to end, all cold" MiB/s cold mapped
measure "mmap random 4 KiB, all cold" MiB/s cold mapped_4k
measure "16 threads, one descriptor, cold" MiB/s cold sixteen
for way in "${ways[@]}"; do copy_small "$way" > /dev/null; done
measure "cp -r, all cold" files/s cold copy_small
for way in "${ways[@]}"; do copy_small "$way" > /dev/null; done
measure "cp -r, in memory" files/s as_it_is copy_small
measure "find -ls, in memory" files/s as_it_is find_small
