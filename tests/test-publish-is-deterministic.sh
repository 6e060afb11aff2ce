#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# One tree, one catalog digest: an empty and a full mirror, one and eight
# threads, another compression level, a run that was killed and resumed.
. "${top_srcdir:-.}/tests/lib.sh"
requires python3

seed=${SEED:-$RANDOM}
python3 "$top_srcdir/tests/make-tree.py" --seed "$seed" --entries 1500 \
	--big 40000000 tree
echo "seed $seed"

snapshot() { # MIRROR [OPTION...]
	local mirror=$1
	shift
	larder publish -n set --json "$@" tree "$mirror" 2> said > result.json ||
		{ cat said >&2; fail "cannot publish to $mirror"; }
	python3 -c 'import json; print(json.load(open("result.json"))["snapshot"])'
}

expected=$(snapshot one --threads 1)
same() {
	local found
	found=$(snapshot "$@")
	[ "$found" = "$expected" ] || fail "$found instead of $expected: $*"
}
same one
grep -q '"unchanged"' result.json || fail "a second publish was not 'unchanged'"
same eight --threads 8
same level --threads 3 --level 9

# A mirror that is full of something else, and of a part of this.
mkdir other
head -c 3000000 /dev/urandom > other/random
cp -r tree/. other/part
larder publish -n other other full > /dev/null 2>&1
same full

# Killed before the mirror's first file had its name.
mkdir unnamed
touch unnamed/.tmp-0123456789abcdef-1-0
same unnamed

# Killed at some moment, three times over.
for delay in 0.05 0.2 0.5; do
	larder publish -n set tree killed > /dev/null 2>&1 &
	sleep "$delay"
	kill -KILL $! 2> /dev/null || true
	wait $! 2> /dev/null || true
done
same killed
for mirror in one eight level full unnamed killed; do
	larder check "$mirror" > check || { cat check; fail "$mirror is bad"; }
done
