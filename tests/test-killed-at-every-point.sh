#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# A mount is killed at every named point of fetch, commit, seal, eviction and
# renewal of the index (base/crash.h), then at random ones while another mount
# reads: every byte read by others and afterwards is right, and nothing that
# was recorded turns out to be wrong. CRASH_ROUNDS: how many random ones.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root python3

rounds=${CRASH_ROUNDS:-4}
ln -sf "$top_builddir/tests/larder-crash" bin/larder
mkdir -p tree/small
for i in $(seq 8); do random_file 1000000 tree/$i; done
for i in $(seq 40); do random_file 5000 tree/small/$i; done
publish_tree tree mirror data

was_killed_at() { [ -s killed ]; }

# until_killed CRASH MOUNTPOINT [OPTIONS]: mount and read until the process
# dies there, or all has been read.
until_killed() {
	local crash=$1 dir=$2 options=${3-}
	: > killed
	mkdir -p "$dir"
	LARDER_CRASH=$crash LARDER_CRASH_LOG=$T/killed larder mount \
		-o "cache=$T/cache,key=$T/test.key.pub$options" \
		"$T/mirror#data" "$dir" > /dev/null 2>&1 || true
	# What is read is in use, and not evicted.
	case $crash in
	evict-*) ;;
	*) cat "$dir"/small/* "$dir"/[0-9] > /dev/null 2>&1 || true ;;
	esac
	# Readers are answered before all is done.
	case $crash in
	*:*) ;;
	*) wait_for 60 was_killed_at "$crash" ;;
	esac
	umount -l "$dir" 2> /dev/null || true
}

# The next one finds everything right, and nothing damaged.
is_right() {
	local server
	mkdir -p mnt
	# A row without its file is a miss: eviction unlinks first.
	if ! larder verify -o "cache=$T/cache" > log 2>&1; then
		! grep -E '^ +(blobs|objects)/' log |
			grep -v 'the file is missing' ||
			fail "verify after $1: $(cat log)"
	fi
	larder mount -f -o "cache=$T/cache,key=$T/test.key.pub" \
		"$T/mirror#data" mnt > log 2>&1 &
	server=$!
	wait_for 20 mountpoint -q mnt
	compare_trees tree mnt || fail "not right after $1"
	umount mnt
	wait $server || fail "$(cat log)"
	! grep -E 'damaged on disk|cut short|index (lost|damaged)' log ||
		fail "something recorded is wrong after $1"
}

points=$(grep -rhoE --include='*.c' 'crash_point\("[a-z-]+"\)' "$top_srcdir/src" |
	cut -d '"' -f 2 | sort -u)
[ "$(wc -w <<< "$points")" -ge 25 ] || fail "few points: $points"
for point in $points; do
	options=
	case $point in
	# The last one has filled it.
	evict-*) options=,size=3M,min-free=1 ;;
	renew-*) dd if=/dev/zero of=cache/index/data.mdb bs=4096 count=2 \
		conv=notrunc status=none ;;
	*) rm -rf cache ;;
	esac
	until_killed "$point" mnt "$options"
	# Again, when there is more to be lost; it may not come so far.
	again=$point:$((2 + RANDOM % 12))
	until_killed "$again" mnt "$options"
	is_right "$point, $again"
done

# Killed at random, with a limit and without, beside one that is not.
rm -rf cache
for ((i = 0; i < rounds; i++)); do
	options=
	[ $((RANDOM % 2)) -eq 0 ] || options=,size=3M,min-free=1
	[ $((RANDOM % 4)) -ne 0 ] || rm -rf cache
	crash="~$((1 + RANDOM % 60)):$((RANDOM << 15 | RANDOM))"
	mount_dataset "$T/mirror#data" beside "size=1G"
	until_killed "$crash" mnt "$options" &
	other=$!
	compare_trees tree beside || fail "not right beside $crash $options"
	wait $other
	umount_dataset beside
	is_right "$crash $options ($(cat killed))"
done
