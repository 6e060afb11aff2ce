#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The index is removed, cut, scribbled over or of an older format, while
# nothing runs and while mounts do: what lies in the cache is read without
# asking the mirror for any of it, but for the one unit that was damaged as
# well; it is recorded anew, by the same process if one is running.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir -p tree/small
python3 - <<'PYTHON'
import random
for i in range(4):
    open("tree/%d" % i, "wb").write(random.randbytes(3000000))
open("tree/large", "wb").write(random.randbytes(20 << 20))
for i in range(200):
    open("tree/small/%d" % i, "wb").write(random.randbytes(3000))
PYTHON
publish_tree tree mirror d
start_httpd mirror

requests() { httpd_requests /packs/; }
compare() {
	drop_caches
	diff -r tree "$2" || fail "$1: other bytes"
}

# recorded: all that is there, says a cache of its own process.
is_recorded() {
	local said
	said=$(larder verify --json -c "$T/larder.conf" -o "cache=$T/cache" \
		2>&1) || return 1
	python3 -c 'import json, sys
said = json.loads(sys.argv[1])
assert said["bytes"] > 32000000' "$said" 2> /dev/null
}

mount_dataset "$httpd_url#d" mnt nopassthrough
compare "cold" mnt
wait_for 20 is_recorded
umount_dataset mnt

remove() { rm -r cache/index; }
remove_file() { rm cache/index/data.mdb; }
cut_short() { truncate -s 8192 cache/index/data.mdb; }
empty() { : > cache/index/data.mdb; }
scribble() {
	dd if=/dev/urandom of=cache/index/data.mdb bs=4096 conv=notrunc \
		status=none count=$(($(stat -c %s cache/index/data.mdb) / 4096))
}

older() {
	python3 - <<'PYTHON'
with open("cache/index/data.mdb", "r+b") as file:
    rows = file.read()
    assert rows.count(b"format\4\0\0\0")
    file.seek(0)
    file.write(rows.replace(b"format\4\0\0\0", b"format\3\0\0\0"))
PYTHON
}

# While nothing runs.
for damage in remove remove_file cut_short empty scribble older; do
	before=$(requests)
	$damage
	mount_dataset "$httpd_url#d" mnt nopassthrough
	[ "$damage" != older ] || grep -q 'another version' mount.err ||
		fail "it is called damaged: $(cat mount.err)"
	compare "$damage" mnt
	[ "$(requests)" -eq "$before" ] ||
		fail "$damage: asked the mirror $(($(requests) - before)) times"
	wait_for 20 is_recorded
	umount_dataset mnt
done

# A flipped byte is fetched again, the rest is not.
file=$(find cache/blobs -type f -size +15M)
printf '\0\377\0' | dd of="$file" bs=1 seek=10000000 conv=notrunc status=none
remove
before=$(requests)
mount_dataset "$httpd_url#d" mnt nopassthrough
compare "flipped" mnt
[ "$(requests)" -eq $((before + 1)) ] ||
	fail "asked the mirror $(($(requests) - before)) times for one unit"
wait_for 20 is_recorded

# While two mounts run: both go on, and record in a new one.
mount_dataset "$httpd_url#d" other nopassthrough
compare "other" other
for damage in remove remove_file empty; do
	before=$(requests)
	$damage
	compare "$damage while mounted" mnt
	compare "$damage while mounted" other
	umount_dataset other
	mount_dataset "$httpd_url#d" other nopassthrough
	compare "$damage, mounted again" other
	[ "$(requests)" -eq "$before" ] || fail \
		"$damage while mounted: asked $(($(requests) - before)) times"
	wait_for 20 is_recorded
	# What is new is recorded, by the process that has lost its index.
	head -c 2500000 /dev/urandom > "tree/$damage"
	publish_tree tree mirror d
	umount_dataset other
	mount_dataset "$httpd_url#d" other nopassthrough
	compare "$damage, new data" other
	umount_dataset mnt
	mount_dataset "$httpd_url#d" mnt nopassthrough
	before=$(requests)
	compare "$damage, new data again" mnt
	[ "$(requests)" -eq "$before" ] ||
		fail "$damage: new data was not recorded"
	umount_dataset other
	mount_dataset "$httpd_url#d" other nopassthrough
	compare "$damage, other again" other
done
umount_dataset mnt
umount_dataset other
