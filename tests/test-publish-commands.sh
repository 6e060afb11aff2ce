#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# keygen, publish, log, tag and rollback as an administrator uses them: what
# they print, refuse and return.
. "${top_srcdir:-.}/tests/lib.sh"
requires python3

larder keygen key > out
grep -q "^key [0-9a-f]\{16\}$" out || fail "keygen said $(cat out)"
[ "$(stat -c %a key)" = 600 ] || fail "the secret key has mode $(stat -c %a key)"
sum=$(cat key key.pub | sha256sum)
expect_fail "'key.pub' exists and is not overwritten" larder keygen key
rm key.pub
expect_fail "'key' exists and is not overwritten" larder keygen key
[ ! -e key.pub ] || fail "half a pair was left"
larder keygen key2 > /dev/null
mv key2 key && mv key2.pub key.pub
[ "$sum" != "$(cat key key.pub | sha256sum)" ] || fail "the same key twice"

mkdir -p pile/sub
echo one > pile/file
echo junk > pile/sub/x.tmp
ln -s file pile/link
mkfifo pile/fifo
larder publish -k key --exclude '*.tmp' pile mirror > out 2> said
grep -q '^published pile serial 1 sha256:[0-9a-f]\{64\}$' out || fail "$(cat out)"
grep -q '1 file, 2 directories, 1 symlink, 4 B' out || fail "$(cat out)"
grep -q '1 skipped: sockets, devices, FIFOs' out || fail "$(cat out)"
grep -q '1 excluded' out || fail "$(cat out)"
[ ! -s said ] || fail "without a terminal a short run is silent: $(cat said)"
head=$(stat -c %i mirror/heads/pile)
larder publish -k key --exclude '*.tmp' pile mirror | grep -q '^unchanged pile serial 1 '
[ "$(stat -c %i mirror/heads/pile)" = "$head" ] || fail "the same head was written"
larder publish --dry-run -k key pile mirror | grep -q '^would publish pile serial 2 '
[ ! -e mirror/history/pile@2 ] || fail "a dry run wrote a head"
larder publish --dry-run pile nowhere 2> said | grep -q '^would publish'
[ ! -e nowhere ] || fail "a dry run made a mirror"

expect_fail "is signed by key [0-9a-f]{16}: give -k KEY" larder publish pile mirror
larder publish -n loose pile unsigned > /dev/null 2> said
grep -q "readers must give the option 'insecure'" said || fail "no warning"

echo two > pile/file
larder publish -k key --tag v2 --json pile mirror > out
id=$(larder log mirror pile | sed -n 's/.*signed by //p' | head -n 1)
grep -q "\"signatures\": \[\"$id\"\]" out || fail "who signed: $(cat out)"
larder log mirror > log
grep -q '^pile$' log || fail "$(cat log)"
awk '$1 == 2 && /current$/ { c++ } $1 == 2 && /@v2$/ { t++ } $1 == 1 && /past$/ { p++ }
	END { exit !(c == 1 && t == 1 && p == 1) }' log || fail "$(cat log)"
larder log --json mirror pile | python3 -c '
import json, sys
log = json.load(sys.stdin)
assert log["format"] == 1
assert [(h["kind"], h["serial"]) for h in log["heads"]] == \
    [("current", 2), ("tag", 2), ("past", 1)], log
assert all(len(h["signatures"]) == 1 for h in log["heads"])
'
expect_fail "has no dataset 'heap'" larder log mirror heap
expect_fail "has no dataset 'heap'" larder tag -k key mirror heap v1
expect_fail "has no dataset 'heap'" larder rollback -k key mirror heap 1

larder tag -k key --serial 1 mirror pile v1 | grep -q '^tagged pile@v1 serial 1 '
larder rollback -k key mirror pile 1 | grep -q '^rolled back pile serial 3 '
larder log mirror | awk '$1 == 3 && /current$/ { ok = 1 } END { exit !ok }'
expect_fail "no snapshot '77' of 'pile'" larder rollback -k key mirror pile 77
expect_fail "that is the current snapshot" larder rollback -k key mirror pile 1
larder tag --delete mirror pile v1 | grep -q '^removed pile@v1$'

# Publishing what is current after a rollback; expiry renews the head.
larder publish -k key --expires 30d --exclude '*.tmp' pile mirror > /dev/null
grep -q '^expires: ' mirror/heads/pile || fail "no expiry"
serial=$(sed -n 's/^serial: //p' mirror/heads/pile)
larder publish -k key --expires 30d --exclude '*.tmp' pile mirror > /dev/null
[ "$(sed -n 's/^serial: //p' mirror/heads/pile)" = $((serial + 1)) ] ||
	fail "an expiry was not renewed"
prev=$(sha256sum < "mirror/history/pile@$serial" | cut -d' ' -f1)
grep -q "^previous: sha256:$prev$" mirror/heads/pile || fail "wrong previous"

# Bad input.
usage() {
	local status=0
	larder "$@" > out 2>&1 || status=$?
	[ $status = 2 ] || fail "status $status instead of 2: $*: $(cat out)"
}
usage publish pile
usage publish pile mirror more
usage publish --level 20 pile mirror
usage publish --exclud x pile mirror
grep -q "exclude" out || fail "does not name the nearest option: $(cat out)"
usage rollback mirror pile
expect_fail "cannot be a dataset's name" larder publish -n 'a b' pile mirror
mkdir 'a b'
expect_fail "'a b' cannot .* give one with -n NAME" larder publish 'a b' mirror
expect_fail "cannot read key 'nokey'" larder publish -k nokey pile mirror
expect_fail "key 'key.pub'" larder publish -k key.pub pile mirror
expect_fail "cannot open 'void'" larder publish -n x void mirror
expect_fail "cannot open 'pile/file': Not a directory" larder publish -n x pile/file mirror
expect_fail "'pile' is no mirror" larder publish -n x pile pile
expect_fail "cannot open mirror 'void'" larder log void
expect_fail "'pile' is no mirror" larder check pile
mkdir newer
printf 'larder mirror 2\ncreated: 2026-01-01T00:00:00Z\n' > newer/larder-mirror
expect_fail "newer" larder publish -n x pile newer
printf 'garbage\n' > mirror/heads/pile
expect_fail "heads/pile" larder publish -k key pile mirror
