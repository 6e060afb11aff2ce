#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One byte in each of ten cache files is flipped and two are swapped, while
# nothing runs and while mounts do, with passthrough and without: verify finds
# all of it, readers get right bytes and fetch no more than what was bad, and
# after a repair verify finds nothing.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir tree
python3 - <<'PYTHON'
import random
for i in range(12):
    open("tree/%d" % i, "wb").write(random.randbytes(200000))
open("tree/large", "wb").write(random.randbytes(12 << 20))
PYTHON
truncate -s 300K tree/zeros
publish_tree tree mirror d
start_httpd mirror
mounts=("mnt nopassthrough" "other nopassthrough" "through ")

mount_all() {
	local mount
	for mount in "${mounts[@]}"; do
		# shellcheck disable=SC2086 # two words
		set -- $mount
		mount_dataset "$httpd_url#d" "$1" "${2-}"
	done
}
umount_all() {
	local mount
	for mount in "${mounts[@]}"; do
		umount_dataset "${mount%% *}"
	done
}

verify() {
	local expected=$1 status=0
	shift
	larder verify -c "$T/larder.conf" -o "cache=$T/cache,key=$T/test.key.pub" \
		"$@" > said 2>&1 || status=$?
	[ $status -eq "$expected" ] || fail "verify $* exits $status: $(cat said)"
}

figure() {
	verify "$1" --json "${@:3}"
	python3 -c 'import json, sys
print(json.load(open("said"))[sys.argv[1]])' "$2"
}

# blob_file NAME: its whole file in the cache.
blob_file() {
	local file
	for file in cache/blobs/*/*; do
		[ -f "$file" ] && cmp -s "tree/$1" "$file" || continue
		echo "$file"
		return
	done
	return 1
}
all_cached() {
	local name
	for name in tree/*; do
		blob_file "${name#tree/}" > /dev/null || return 1
	done
}

# harm: the first byte, the last, and some between.
harm() {
	local i at path paths=() byte
	for ((i = 0; i < 12; i++)); do
		paths+=("$(blob_file $i)")
	done
	for ((i = 0; i < 10; i++)); do
		path=${paths[i]}
		case $i in
		0) at=0 ;;
		1) at=199999 ;;
		*) at=$((i * 19000)) ;;
		esac
		byte=$(dd if="$path" bs=1 skip=$at count=1 status=none |
			od -An -tu1)
		printf "\\x$(printf %x $((byte ^ 1)))" |
			dd of="$path" bs=1 seek=$at conv=notrunc status=none
	done
	mv "${paths[10]}" aside
	mv "${paths[11]}" "${paths[10]}"
	mv aside "${paths[11]}"
}

# 4 KiB here and there of each, then all, by two processes at a time.
read_all() {
	local dir pids=() pid
	drop_caches
	for dir in "$@"; do
		random_reads tree/large "$dir/large" > /dev/null
		for ((i = 0; i < 12; i++)); do
			cmp <(dd if="$dir/$i" bs=4K skip=$((i * 4)) count=1 \
				status=none) <(dd if="tree/$i" bs=4K \
				skip=$((i * 4)) count=1 status=none)
		done
		diff -r tree "$dir" & pids+=($!)
		diff -r tree "$dir" & pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "other bytes in one of $*"
	done
}

mount_all
read_all mnt other through
wait_for 20 all_cached
verify 0
grep -q '^clean$' said || fail "$(cat said)"
# Small files too are compared with digests: all of the data.
[ "$(figure 0 proven_units)" -eq "$(figure 0 units)" ] || fail "$(cat said)"
umount_all

# While nothing runs: 12 units are bad, no more and no less.
harm
[ "$(figure 4 bad_units)" -eq 12 ] || fail "$(cat said)"
[ "$(figure 4 left)" -eq 12 ] || fail "$(cat said)"
verify 4 "$httpd_url#d:3"
grep -q '^damaged: 1 fault, ' said || fail "$(cat said)"
verify 0 "$httpd_url#d:large"
before=$(httpd_requests /packs/)
mount_dataset "$httpd_url#d" mnt nopassthrough
read_all mnt
larder status --json -c "$T/larder.conf" > status || true
python3 - "$T/mnt" <<'PYTHON'
import json, sys
mount, = [m for m in json.load(open("status"))["mounts"]
          if m["mountpoint"] == sys.argv[1]]
assert mount["cache"]["corrupt_units"] == 12, mount
PYTHON
umount_dataset mnt
mount_all
read_all mnt other through
[ $(($(httpd_requests /packs/) - before)) -le 12 ] ||
	fail "fetched more often than there was damage"
wait_for 20 all_cached
verify 0

# While mounts run, with the files open and with none of them: at the latest
# when the kernel has dropped what it keeps and the file is opened again.
harm
verify 4
read_all mnt other through
read_all mnt other through
umount_all
verify_is_clean() { (verify 0) 2> /dev/null; }
wait_for 20 verify_is_clean
mount_all
read_all mnt other through
wait_for 20 all_cached
umount_all

# Repaired: what was bad is gone, and comes again.
harm
rm "$(blob_file large)"
verify 1 --repair
grep -q '^repaired: 13 faults, ' said || fail "$(cat said)"
grep -q 'will be fetched again' said || fail "$(cat said)"
verify 0
mount_all
read_all mnt
wait_for 20 all_cached
verify 0
umount_all

# An object that is not what its name says; something in a blob's place.
object=$(find cache/objects -type f ! -name '*.places' -size +0 | head -n 1)
printf x | dd of="$object" bs=1 seek=20 conv=notrunc status=none
path=$(blob_file 5)
rm "$path"
mkfifo "$path"
[ "$(figure 4 bad_objects)" -eq 1 ] || fail "$(cat said)"
[ "$(figure 4 lost_files)" -eq 1 ] || fail "$(cat said)"
verify 1 --repair
[ ! -e "$path" ] || fail "the FIFO is still there"
verify 0

# Mistakes.
verify 2 --no-such-option
verify 8 "$T/nowhere#other"
verify 8 -c "$T/nowhere.conf"
