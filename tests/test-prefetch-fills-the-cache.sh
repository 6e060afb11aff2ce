#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# After larder prefetch every byte is read without the mirror: of all files, or of those that
# patterns name. What is here is not fetched again, but looked at: rot is noticed and mended.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net nginx python3

mkdir -p tree/sub/deep
random_file $((5 << 20)) tree/large
random_file $((300 << 10)) tree/sub/middle
truncate -s 3M tree/zeros
: > tree/empty
for i in {1..60}; do
	head -c $((i * 37)) tree/large > "tree/sub/deep/$i.txt"
done
publish_tree tree mirror set
start_nginx mirror
prefetch() {
	larder prefetch -c larder.conf -o cache="$T/cache",key="$T/test.key.pub" "$@"
}
packs() {
	grep -c "^GET /packs/.* 20[06] " "$nginx_log" || true
}
# json NAME: a member of the result
json() {
	python3 -c 'import json, sys; print(json.load(open("out"))[sys.argv[1]])' "$1"
}

prefetch --dry-run "$nginx_url#set" > out
grep -q "^would fetch .* of 8.[0-9] MiB, 64 files of " out || fail "$(cat out)"
grep -q "it fits" out || fail "$(cat out)"
[ "$(packs)" = 0 ] || fail "a dry run fetched"

prefetch --json "$nginx_url#set" 'deep' '/sub/mid*' > out
[ "$(json files)" = 61 ] && [ "$(json result)" = complete ] || fail "$(cat out)"
[ "$(json bytes_at_start)" = 0 ] && [ "$(json files_here)" = 61 ] || fail "$(cat out)"
[ "$(json wire_bytes)" -lt $((2 << 20)) ] || fail "others were fetched: $(cat out)"

prefetch "$nginx_url#set" > out
grep -q "^complete: 8.[0-9] MiB in 64 files of " out || fail "$(cat out)"
before=$(packs)
prefetch --json "$nginx_url#set" > out
[ "$(packs)" = "$before" ] || fail "what is here was fetched again"
[ "$(json wire_bytes)" = 0 ] && [ "$(json bytes_at_start)" = "$(json bytes)" ] || fail "$(cat out)"

# A flipped bit in the largest blob, at the same size and time.
blob=$(find cache/blobs -type f -size +4M -printf '%s %p\n' | sort -n | sed -n '$s/^[0-9]* //p')
touch -r "$blob" stamp
python3 - "$blob" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(1 << 20)
    byte = f.read(1)
    f.seek(1 << 20)
    f.write(bytes([byte[0] ^ 4]))
PY
touch -r stamp "$blob"
prefetch --json "$nginx_url#set" > out
[ "$(json result)" = complete ] && [ "$(json wire_bytes)" -gt 0 ] || fail "rot was not mended: $(cat out)"

# By directory of a mount, with its options and its cache.
mount_dataset "$nginx_url#set" mnt "cache=$T/cache2"
larder prefetch -c larder.conf --json mnt/sub deep > out
[ "$(json files)" = 60 ] && [ "$(json result)" = complete ] || fail "$(cat out)"
umount_dataset mnt

mount_dataset "$nginx_url#set" mnt
stop_nginx
diff -r tree mnt || fail "it is not all there"
umount_dataset mnt

expect_fail "no file matches 'nothing'" prefetch "$nginx_url#set" nothing
