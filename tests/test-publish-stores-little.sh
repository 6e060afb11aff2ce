#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# What a small change costs. A byte at the start of a large file: less than
# 10 MiB. A small file in a tree of many: less than 70 MiB. SCALE=100 is the
# full size of a gigabyte and 100,000 files.
. "${top_srcdir:-.}/tests/lib.sh"
requires python3
scale=${SCALE:-10}

publish() { # NAME TREE
	larder publish -n "$1" --json "$2" mirror 2> said > result.json ||
		{ cat said >&2; fail "cannot publish $2"; }
}
stored() {
	python3 -c 'import json
r = json.load(open("result.json"))
print(r["stored_bytes"] + r["object_bytes"])'
}
below() { # LIMIT WHAT
	local bytes
	bytes=$(stored)
	echo "$2: stored $bytes bytes"
	[ "$bytes" -lt "$1" ] || fail "$2 stored $bytes bytes, over $1"
}

mkdir large
head -c $((scale * 10737418)) /dev/urandom > large/random
python3 - "$((scale * 10737418))" > large/text <<'PY'
import random, sys
r, left = random.Random(3), int(sys.argv[1])
words = [r.randbytes(r.randint(1, 6)).hex() for _ in range(20000)]
while left > 0:
    left -= sys.stdout.write(" ".join(r.choices(words, k=20000))[:left])
PY
publish large large
for file in random text; do
	{ printf x; cat large/$file; } > new
	mv new large/$file
	publish large large
	below 10485760 "a byte before $file"
done

python3 - $((scale * 1000)) <<'PY'
import os, random, sys
r = random.Random(4)
count = int(sys.argv[1])
for d in range(count // 100):
    os.makedirs(f"many/{d % 17}/{d}")
    for i in range(100):
        with open(f"many/{d % 17}/{d}/{i}", "wb") as f:
            f.write(r.randbytes(r.randint(1, 6000)))
PY
publish many many
echo "one more" > "many/3/$((scale * 10 - scale * 10 % 17 - 14))/new" ||
	fail "the test's path is wrong"
publish many many
below 73400320 "a small file"
# far less when the tree is small; what chunks share is not stored again
below 10485760 "a small file"
larder check mirror > check || { cat check; fail "the mirror is bad"; }
