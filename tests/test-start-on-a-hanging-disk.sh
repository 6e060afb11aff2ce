#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The disk of the cache hangs when a mount starts: it comes up, reads from
# the mirror and says so once; also where the directory has not been made yet.
# Commands end with what is wrong and what to do. When the disk answers
# again a new mount uses it.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root loop python3 mkfs.ext4 fsfreeze getfattr

mkdir tree disk
random_file 3000000 tree/large
random_file 5000 tree/small
publish_tree tree mirror d
truncate -s 100M disk.img
mkfs.ext4 -q disk.img
mount -o loop disk.img disk
mkdir -m 700 disk/cache
mount_dataset "$T/mirror#d" mnt cache=disk/cache
cmp tree/small mnt/small
umount_dataset mnt
cat > larder.conf <<EOF
cache = $T/disk/cache
key = $T/test.key.pub
EOF

fsfreeze -f disk
thaw() { fsfreeze -u "$T/disk" 2> /dev/null || true; }
cleanup_fn thaw
# All at once: each waits its 10 s.
comes_up() {
	timeout 120 larder mount -o "cache=$2,key=$T/test.key.pub" \
		"$T/mirror#d" "$1" > "$1.said" 2>&1 < /dev/null ||
		fail "no mount: $(cat "$1.said")"
	[ "$(grep -c 'does not answer.*without a cache' "$1.said")" = 1 ] ||
		fail "not said: $(cat "$1.said")"
	for name in large small; do
		timeout 120 cmp tree/$name "$1/$name" || fail "$1/$name"
	done
}
says_why_not() {
	local status=0 said=$1.said
	timeout 120 larder "$@" -c larder.conf > "$said" 2>&1 < /dev/null ||
		status=$?
	[ $status != 0 ] && [ $status != 124 ] ||
		fail "$1: exit $status: $(cat "$said")"
	grep -q "disk/cache.*does not answer.*kernel's log" "$said" ||
		fail "$1: $(cat "$said")"
}
mkdir mnt2 mnt3
pids=()
comes_up mnt2 disk/cache &
pids+=($!)
comes_up mnt3 disk/new &
pids+=($!)
for command in "prefetch $T/mirror#d" verify pin "ls $T/mirror#d"; do
	# shellcheck disable=SC2086 # words
	says_why_not $command &
	pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
for at in 2 3; do umount_dataset mnt$at; done

thaw
mount_dataset "$T/mirror#d" mnt cache=disk/cache
is_kept() {
	cmp tree/large mnt/large &&
		[ "$(getfattr --only-values -n user.larder.cached mnt/large)" = 3000000 ]
}
wait_for 60 is_kept
umount_dataset mnt
larder verify -c larder.conf > said 2>&1 || fail "$(cat said)"
wait_for 60 umount disk
