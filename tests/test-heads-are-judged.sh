#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Heads that must not be believed: signed by another key, not signed at all,
# expired when first seen, of another dataset, older than one accepted before.
# Each is refused in words, and what was accepted before goes on.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root python3

mkdir tree mnt
echo one > tree/file
publish_tree tree mirror data
cp mirror/heads/data first
larder keygen other.key > /dev/null

# refused PATTERN SOURCE [OPTIONS]: nothing gets mounted, nothing cached.
refused() {
	expect_fail "$1" larder mount -c larder.conf -o \
		"cache=$T/cache.$RANDOM,timeout=3s,${3-key=$T/test.key.pub}" \
		"$2" mnt
	! mountpoint -q mnt || fail "mounted: $2"
}

refused "data.*no trusted signature" "mirror#data" "key=$T/other.key.pub"
refused "no trusted key \(give --key=FILE" "mirror#data" nodev
larder publish -n plain tree mirror > /dev/null
refused "plain.*(not signed|no signature|unsigned)" "mirror#plain"
mount_dataset "mirror#plain" mnt insecure
[ "$(cat mnt/file)" = one ]
umount_dataset mnt

publish_tree tree mirror old --expires 1s
sleep 2.2
refused "old.*expired" "mirror#old"

cp mirror/heads/data mirror/heads/copied
refused "head is of 'data', not of 'copied'" "mirror#copied"

python3 -c '
text = open("mirror/heads/data").read()
open("mirror/heads/data", "w").write(text.replace("serial: 1", "serial: 9"))'
refused "data" "mirror#data"
cp first mirror/heads/data

# A replay: the node has seen version 2, the mirror offers version 1 again.
echo two > tree/file
publish_tree tree mirror data
mount_dataset "mirror#data" mnt
[ "$(cat mnt/file)" = two ]
umount_dataset mnt
cp first mirror/heads/data
mount_dataset "mirror#data" mnt refresh=1s
[ "$(cat mnt/file)" = two ] || fail "went back"
sleep 2
[ "$(cat mnt/file)" = two ] || fail "went back at a refresh"
umount_dataset mnt
test_cache=cache=$T/cache,key=$T/test.key.pub
larder ls -o "$test_cache" "mirror#data" > /dev/null 2> said
grep -q "serial 1, older than 2" said || fail "did not say: $(cat said)"

# What the cache keeps of heads is trusted no more than what a mirror sends.
grep -q '^serial: 2$' cache/heads/*
sed -i 's/^serial: 2$/serial: 9/' cache/heads/*
larder ls -o "$test_cache" "mirror#data" > /dev/null 2> said
! grep -q "older than 9" said || fail "believed the cache: $(cat said)"

# A head lies there that belongs to another dataset: signed, and not this one's.
mkdir other
echo other > other/file
publish_tree other mirror other
larder ls -o "$test_cache" "mirror#other" > /dev/null
kept=$(grep -l '^dataset: data$' cache/heads/*)
cp "$(grep -l '^dataset: other$' cache/heads/*)" "$kept"
mv mirror/heads/data first
expect_fail "no dataset 'data' there" \
	larder cat -o "$test_cache,timeout=3s" "mirror#data:file"
mv first mirror/heads/data

# Accepted while it was good: served on, unless told otherwise.
publish_tree tree mirror brief --expires 2s
mount_dataset "mirror#brief" mnt
umount_dataset mnt
sleep 3.2
mount_dataset "mirror#brief" mnt
[ "$(cat mnt/file)" = two ]
larder status > said || fail "stale is no failure: $(cat said)"
grep -q "mnt  stale " said || fail "$(cat said)"
grep -q "^  reason: its head expired at 2.*Z and no mirror has a newer" said ||
	fail "the reason is not told: $(cat said)"
larder refresh mnt > said || fail "it could be looked at: $(cat said)"
grep -q "0 of 1 dataset changed" said || fail "$(cat said)"
umount_dataset mnt
expect_fail "brief.*expired" larder mount -c larder.conf \
	-o "$test_cache,expired=refuse,timeout=3s" "mirror#brief" mnt
