#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What larder prefetch cannot do it says, and exits 1: what does not fit it does not begin, what no
# mirror has right it names, and fetches the rest.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires root python3

mkdir tree
for name in a b c d; do
	random_file $((3 << 20)) tree/$name
done
publish_tree tree mirror set
prefetch() {
	larder prefetch -c larder.conf -o cache="$T/cache",key="$T/test.key.pub" "$@"
}

expect_fail "12.0 MiB do not fit into the cache, which is limited to 8.0 MiB \(option 'size'\)" \
	prefetch -o size=8M mirror#set
expect_fail "do not fit" prefetch -o size=8M --dry-run mirror#set
for size in 8M:refused 80M:fits; do
	prefetch --json --dry-run -o size=${size%:*} mirror#set > out 2> said || true
	grep -q "\"result\": \"${size#*:}\"" out || fail "$size: $(cat out said)"
done
expect_fail "cannot pin" prefetch -o size=8M --pin mirror#set
[ -z "$(find cache/blobs -type f)" ] || fail "it began all the same"

mkdir disk
mount -t tmpfs -o size=18m tmpfs disk
expect_fail "12.0 MiB do not fit into the cache, which has a disk with room for .* \(option 'min-free'\)" \
	prefetch -o cache="$T/disk/cache" mirror#set
umount disk

# The disk is filled by somebody else meanwhile: it does not go on for ever.
mount -t tmpfs -o size=40m tmpfs disk
prefetch -o cache="$T/disk/cache",min-free=1M --limit-rate 1M mirror#set > out 2> said &
pid=$!
begun() { [ -n "$(find disk -path '*/blobs/*' -type f)" ]; }
wait_for 60 begun
head -c 60M /dev/zero > disk/filler 2> /dev/null || true
wait_for 200 lib_has_ended $pid
status=0
wait $pid || status=$?
[ $status = 1 ] || fail "ended with $status: $(cat said)"
grep -q "the cache takes nothing more: it has .* its disk [0-9] MiB free" said || fail "$(cat said)"
umount disk

# Pinned data leaves no room.
prefetch -o size=10M --pin mirror#set a b > out
grep -q "^complete: 6.0 MiB in 2 files of .*, pinned" out || fail "$(cat out)"
expect_fail "6.0 MiB are missing, but the cache has room for .* only: the rest is pinned" \
	prefetch -o size=10M mirror#set c d
larder pin -c larder.conf -o cache="$T/cache" | grep -q "'a' 'b'" || fail "no pin"

# Wrong bytes in one pack's middle: one file is named, three are there.
rm -rf cache
pack=$(find mirror/packs -type f | head -n 1)
python3 - "$pack" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(1000)
    f.write(b"\0" * 1000)
PY
status=0
prefetch --json mirror#set > out 2> said || status=$?
[ $status = 1 ] || fail "ended with $status: $(cat out said)"
grep -q "larder prefetch: 1 file cannot be fetched" said || fail "$(cat said)"
grep -qE "^  set/[abcd]: .*wrong bytes" said || fail "$(cat said)"
python3 - <<'PY'
import json
out = json.load(open("out"))
assert out["result"] == "incomplete" and out["files_failed"] == 1, out
assert out["files_here"] == 3, out
assert out["bytes_missing"] > 0, out
PY

expect_fail "cannot open dataset .set.: .*connection refused" \
	prefetch -o timeout=2s,cache="$T/empty" "http://127.0.0.1:1/m#set"
expect_fail "is not on a larder mount" prefetch "$T"
