#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# larder check: 0 for a sound mirror, 1 and the name of what is damaged or
# missing, of every kind of file. A publish of the same tree then mends it.
. "${top_srcdir:-.}/tests/lib.sh"
requires python3

mkdir tree
head -c 9000000 /dev/urandom > tree/random
for i in 1 2 3 4 5; do echo "file $i" > tree/$i; done
publish_tree tree good set
larder check good > out || fail "$(cat out)"
head -n 1 out | grep -qx ok || fail "$(cat out)"
larder check --json good | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["ok"] and r["fault_count"] == 0 and r["faults"] == [] and r["packs"] > 0
'

flip() { # FILE OFFSET
	python3 - "$1" "$2" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]), 0 if int(sys.argv[2]) >= 0 else 2)
    byte = f.read(1)
    f.seek(-1, 1)
    f.write(bytes([byte[0] ^ 0x40]))
PY
}
largest() { # DIR
	find "$1" -type f -printf '%s %p\n' | sort -rn | head -n 1 | cut -d' ' -f2
}
# damaged WHAT COMMAND...: WHAT is the file that must be named
damaged() {
	local what=${1#bad/} status=0
	timeout 60 larder check bad > out 2>&1 || status=$?
	[ $status = 1 ] || fail "status $status after damage to $what: $(cat out)"
	head -n 1 out | grep -q '^damaged: [0-9]* faults\{0,1\}$' || fail "$(cat out)"
	grep -q "^  $what: " out || fail "does not name $what: $(cat out)"
	larder check --json bad > json && fail "json: status 0"
	python3 - "$what" <<'PY'
import json, sys
r = json.load(open("json"))
assert not r["ok"] and any(f["path"] == sys.argv[1] for f in r["faults"]), r
PY
}
again() { rm -rf bad && cp -r good bad; }

for kind in packs objects places; do
	for offset in 30 -30; do
		again
		victim=$(largest bad/$kind)
		flip "$victim" $offset
		damaged "$victim"
	done
	again
	victim=$(largest bad/$kind)
	truncate -s -5 "$victim"
	damaged "$victim"
	again
	victim=$(largest bad/$kind)
	: > "$victim"
	damaged "$victim"
	# small files are compared when they are published again
	if [ $kind != packs ]; then
		publish_tree tree bad set
		larder check bad > out || fail "not mended: $(cat out)"
	fi
	again
	victim=$(largest bad/$kind)
	rm "$victim"
	mkfifo "$victim" # opening it must not wait
	damaged "$victim"
	rm "$victim"
	damaged "$victim"
	# what is missing is put back
	publish_tree tree bad set
	larder check bad > out || fail "not mended: $(cat out)"
done

# Zeros have no place in a pack, all else has one: the places of as many chunks
# of the other kind do not fit. A run of one byte is cut where it must be.
mkdir runs
head -c 25000000 /dev/zero > runs/zeros
head -c 25000000 /dev/zero | tr '\0' x > runs/letters
publish_tree runs others set
mapfile -t places < <(cd others && find places -type f)
[ ${#places[@]} = 2 ] || fail "${#places[@]} places: ${places[*]}"
for i in 0 1; do
	rm -rf bad && cp -r others bad
	cp "others/${places[i]}" "bad/${places[1 - i]}"
	damaged "bad/${places[1 - i]}"
	grep -q 'place does not fit the recipe' out || fail "$(cat out)"
done

# A sound pack under another's name.
again
victim=$(largest bad/packs)
mkdir -p bad/packs/00
mv "$victim" "bad/packs/00/$(printf '%062d' 0)"
damaged "bad/packs/00/$(printf '%062d' 0)"

for head in heads/set history/set@1; do
	again
	printf 'not a head\n' > bad/$head
	damaged bad/$head
	: > bad/$head
	damaged bad/$head
	rm bad/$head
	mkfifo bad/$head
	damaged bad/$head
	expect_fail "is not a regular file; nothing was removed" \
		timeout 60 larder gc -y bad
	rm bad/$head
	ln -s nowhere bad/$head
	damaged bad/$head
done
# Readers follow a symlink, so it is as good as its file.
again
mv bad/heads/set bad/set
ln -s ../set bad/heads/set
larder check bad > out || fail "a symlinked head: $(cat out)"
again
mv bad/heads/set bad/heads/other
damaged bad/heads/other

# The head is gone, or an old one was put back: readers refuse to go back.
mkdir -p tree
for i in 2 3; do
	echo "$i" > tree/1
	publish_tree tree good set
done
again
rm bad/heads/set
damaged bad/heads/set
grep -q 'history goes to serial 3' out || fail "$(cat out)"
again
cp bad/history/set@1 bad/heads/set
damaged bad/heads/set
grep -q 'history goes to 3' out || fail "$(cat out)"
# a publish that ended just before its head leaves this
again
cp bad/history/set@2 bad/heads/set
larder check bad > out || fail "one behind: $(cat out)"
# what was published is what readers have seen: the next is newer
for serial in 1 none; do
	again
	rm bad/heads/set
	[ $serial = none ] || cp bad/history/set@$serial bad/heads/set
	publish_tree tree bad set
	larder check bad > out || fail "not mended: $(cat out)"
	grep -qx 'serial: 4' bad/heads/set || fail "$(cat bad/heads/set)"
done
