#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# larder gc: what no kept head reaches goes; current and tagged snapshots, past
# ones within --keep and young files stay; a damaged mirror is left alone.
. "${top_srcdir:-.}/tests/lib.sh"
requires python3 script

version() { # one more version, all of it new
	rm -rf tree
	mkdir tree
	head -c 3000000 /dev/urandom > tree/large
	head -c 1000 /dev/urandom > tree/small
	publish_tree tree mirror set "$@"
}
files() { find mirror -type f -printf '%P\n' | LC_ALL=C sort; }
size() { du -sb mirror/packs | cut -f1; }
gc() {
	larder gc -y --json "$@" mirror > result.json 2> said ||
		{ cat said >&2; fail "gc failed"; }
}
result() {
	python3 -c 'import json, sys
print(json.load(open("result.json"))[sys.argv[1]])' "$1"
}
snapshots() {
	larder log --json mirror | python3 -c '
import json, sys
print(" ".join(str(h["serial"]) + h.get("tag", "") for h in json.load(sys.stdin)["heads"]))'
}

version
version --tag keep
version
version
larder check mirror > /dev/null
files > before

# Young files are spared, and so are heads of the last 30 days.
gc
[ "$(result heads)" = 0 ] && [ "$(result removed_bytes)" = 0 ] ||
	fail "removed what is young: $(cat result.json)"
files | cmp - before || fail "a gc of nothing changed something"
sleep 1.1
gc --keep 0
for kind in objects places packs; do
	[ "$(result $kind)" = 0 ] || fail "removed young $kind: $(cat result.json)"
done
[ "$(result heads)" = 3 ] || fail "past heads stayed: $(cat result.json)"
[ "$(snapshots)" = "4 2keep" ] || fail "left: $(snapshots)"

# Who publishes may count on a pack that young places name, and on a young one
# that none names yet.
older() { find "$@" -type f -exec touch -d '20 days ago' {} +; }
older mirror/packs
gc --keep 0 --dry-run
[ "$(result packs)" = 0 ] || fail "not spared for its places: $(cat result.json)"
older mirror/objects mirror/places
find mirror/packs -type f -exec touch {} +
gc --keep 0 --dry-run
[ "$(result places)" -gt 0 ] || fail "old places stay: $(cat result.json)"
[ "$(result packs)" = 0 ] || fail "would remove a young pack: $(cat result.json)"

# A dry run says the same and does nothing.
files > before
gc --keep 0 --grace 0 --dry-run
dry=$(cat result.json)
files | cmp - before || fail "a dry run changed something"

# At a terminal it asks, and nothing but a yes is one.
for answer in n ''; do
	status=0
	echo "$answer" | script -qec 'larder gc --keep 0 --grace 0 mirror' \
		/dev/null > said || status=$?
	[ $status = 1 ] || fail "a no ended with $status: $(cat said)"
	grep -q 'would remove .*pack' said || fail "not said: $(cat said)"
	grep -q 'remove? \[y/N\]' said || fail "not asked: $(cat said)"
	files | cmp - before || fail "removed without a yes"
done
cp -a mirror asked
echo y | script -qec 'larder gc --keep 0 --grace 0 asked' /dev/null > said ||
	fail "$(cat said)"
[ "$(find asked -type f | wc -l)" -lt "$(wc -l < before)" ] || fail "$(cat said)"
gc --keep 0 --grace 0
[ "${dry/true/false}" = "$(cat result.json)" ] || fail "the dry run said $dry"
[ "$(result packs)" -ge 2 ] || fail "$(cat result.json)"
[ "$(size)" -lt 7000000 ] || fail "packs have $(size) bytes"
larder check mirror > out || fail "$(cat out)"
larder cat -c "$T/larder.conf" -o "cache=$T/cache,key=$T/test.key.pub" \
	mirror#set:large | cmp - tree/large || fail "the current snapshot is gone"
larder rollback -k test.key mirror set 2 > /dev/null || fail "the tag is gone"
gc --keep 1 --grace 0
[ "$(result kept_packs)" -ge 2 ] || fail "the replaced snapshot went at once"

# What a dead publish left, once it is old.
: > mirror/packs/.tmp-pack-0123456789abcdef
mkdir -p mirror/objects/ab
: > mirror/objects/ab/.tmp-x
gc
[ -e mirror/objects/ab/.tmp-x ] || fail "a young temporary file went"
touch -d '20 days ago' mirror/objects/ab/.tmp-x
gc
[ ! -e mirror/objects/ab/.tmp-x ] || fail "an old temporary file stayed"

# An index of what is live that cannot be trusted.
version
find mirror/objects -type f -printf '%T@ %p\n' | sort -n | tail -n 1 |
	cut -d' ' -f2- | xargs rm
files > before
expect_fail 'the mirror is damaged, nothing was removed' \
	larder gc -y --keep 0 --grace 0 mirror
echo garbage > mirror/heads/set
expect_fail 'nothing was removed: repair or remove that head' \
	larder gc -y --keep 0 --grace 0 mirror
files | cmp - before || fail "a refused gc changed something"
