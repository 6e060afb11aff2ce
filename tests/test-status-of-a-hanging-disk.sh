#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The disk of a cache that nothing mounts does not answer: status says so within
# seconds and is not stuck itself. When the disk answers again, so does status.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root loop python3 mkfs.ext4 fsfreeze

mkdir tree disk
echo data > tree/file
publish_tree tree mirror d
truncate -s 60M disk.img
mkfs.ext4 -q disk.img
mount -o loop disk.img disk
mkdir -m 700 disk/cache
mount_dataset "$T/mirror#d" mnt cache=disk/cache
cat mnt/file > /dev/null
umount_dataset mnt
cat > larder.conf <<EOF
cache = $T/disk/cache
EOF
larder status -c larder.conf > said || fail "status: $(cat said)"
grep -q "^$T/disk/cache  *cache .* of " said || fail "status: $(cat said)"

fsfreeze -f disk
cleanup_fn fsfreeze -u "$T/disk"
for json in '' --json; do
	status=0
	# shellcheck disable=SC2086 # none is no argument
	timeout 60 larder status $json -c larder.conf > said 2>&1 < /dev/null ||
		status=$?
	[ $status -eq 1 ] || fail "exit $status: $(cat said)"
	grep -q silent said || fail "status: $(cat said)"
done
python3 -c 'import json; json.load(open("said"))' || fail "$(cat said)"
fsfreeze -u disk
larder status -c larder.conf > said || fail "status: $(cat said)"
! grep silent said || fail "still silent"
wait_for 30 umount disk
