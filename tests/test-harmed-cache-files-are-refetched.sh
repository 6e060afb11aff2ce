#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Cache files cut, zeroed, flipped, swapped, deleted, or with a symlink, a
# directory or a FIFO in their place, while a mount runs and while none does:
# right bytes each time, what is bad is fetched again, nothing is followed and
# nothing hangs.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

harms='cut zeroed grown longer flipped swapped1 swapped2 deleted symlink directory fifo'
mkdir tree
python3 - "$harms" <<'PYTHON'
import random, sys
for name in sys.argv[1].split():
    open("tree/" + name, "wb").write(random.randbytes(3 << 20))
PYTHON
publish_tree tree mirror harm
start_httpd mirror

is_copy() {
	[ -f "$2" ] && [ ! -L "$2" ] && cmp -s "$1" "$2"
}

# blob_file NAME: where the cache keeps it.
blob_file() {
	local file
	for file in cache/blobs/*/*; do
		is_copy "tree/$1" "$file" || continue
		echo "$file"
		return
	done
	fail "the cache has no whole file of $1"
}

harm() {
	local name path other
	for name in $harms; do
		path=$(blob_file "$name")
		echo "$path" > "path.$name"
	done
	for name in $harms; do
		path=$(cat "path.$name")
		case $name in
		cut) truncate -s 1000000 "$path" ;;
		zeroed) dd if=/dev/zero of="$path" bs=64K count=48 \
			conv=notrunc status=none ;;
		grown) truncate -s 1000000 "$path"
			truncate -s $((3 << 20)) "$path" ;;
		longer) echo more >> "$path" ;;
		flipped) printf '\377\0\377' | dd of="$path" bs=1 seek=2000000 \
			conv=notrunc status=none ;;
		swapped1) other=$(cat path.swapped2)
			mv "$path" aside && mv "$other" "$path" &&
				mv aside "$other" ;;
		swapped2) ;;
		deleted) rm "$path" ;;
		# At once where that can be: empty directories are taken away.
		symlink) ln -s "$T/secret" aside && mv -T aside "$path" ;;
		directory) rm "$path" && mkdir -p "$path" ;;
		fifo) mkfifo aside && mv -T aside "$path" ;;
		esac
	done
}

# What a symlink leads to is as long as what it stands for.
head -c $((3 << 20)) /dev/zero > secret
cp secret secret.before

compare() {
	drop_caches
	timeout 60 diff -r tree mnt || fail "$1: other bytes"
	cmp secret secret.before || fail "$1: what a symlink leads to was written"
}

everything_is_cached() {
	local name file
	for name in $harms; do
		for file in cache/blobs/*/*; do
			! is_copy "tree/$name" "$file" || continue 2
		done
		return 1
	done
}

mount_dataset "$httpd_url#harm" mnt
compare "cold"
wait_for 20 everything_is_cached

# While it runs: changes in place are noticed, what was replaced is still
# open. Which are fetched again is seen below.
harm
before=$(httpd_requests /packs/)
compare "harmed while mounted"
[ "$(httpd_requests /packs/)" -gt "$before" ] ||
	fail "nothing was fetched again"
compare "harmed while mounted, once more"
umount_dataset mnt

# And for the next process, which finds what was put in their place.
mount_dataset "$httpd_url#harm" mnt
compare "mounted again"
wait_for 20 everything_is_cached
umount_dataset mnt

# While nobody looks.
harm
mount_dataset "$httpd_url#harm" mnt
before=$(httpd_requests /packs/)
compare "harmed while not mounted"
[ "$(httpd_requests /packs/)" -ge $((before + 10)) ] ||
	fail "less than one request for each of 10 harmed files"
wait_for 20 everything_is_cached

# Now nothing is missing.
before=$(httpd_requests /packs/)
compare "repaired"
[ "$(httpd_requests /packs/)" -eq "$before" ] ||
	fail "repaired files were fetched again"
umount_dataset mnt
