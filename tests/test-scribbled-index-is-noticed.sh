#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Bytes of the index are flipped while nothing runs, at random: every mount
# starts, every byte read is right, what was cached is not fetched again, and
# what is stored then is recorded.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

# More for who has the time.
rounds=${LARDER_FLIPS:-10}
mkdir -p tree/small
for i in 1 2 3; do random_file 1500000 tree/$i; done
for i in $(seq 100); do random_file 3000 tree/small/$i; done
publish_tree tree mirror d
start_httpd mirror

recorded() {
	local said
	said=$(larder verify --json -c "$T/larder.conf" -o "cache=$T/cache" \
		2>&1) || return 1
	python3 -c 'import json, sys
assert json.loads(sys.argv[1])["bytes"] > 4500000' "$said" 2> /dev/null
}

# flip SEED: a few bits, most of them where pages begin.
flip() {
	python3 - cache/index/data.mdb "$1" <<'PYTHON'
import random, sys
path, seed = sys.argv[1:]
random.seed(int(seed))
with open(path, "r+b") as f:
    data = bytearray(f.read())
    for _ in range(random.randint(1, 4)):
        page = random.randrange(len(data) // 4096) * 4096
        at = page + random.randrange(random.choice([64, 200, 4096]))
        data[at] ^= 1 << random.randrange(8)
    f.seek(0)
    f.write(data)
PYTHON
}

mount_dataset "$httpd_url#d" mnt nopassthrough
diff -r tree mnt || fail 'not right when cold'
wait_for 20 recorded
umount_dataset mnt
before=$(httpd_requests /packs/)

# read_all: by a mount of its own, without a request.
read_all() {
	mount_dataset "$httpd_url#d" mnt nopassthrough
	drop_caches
	diff -r tree mnt || fail "not right after flips of seed $seed"
	[ "$(httpd_requests /packs/)" -eq "$before" ] ||
		fail "fetched again after flips of seed $seed"
}

for ((i = 0; i < rounds; i++)); do
	seed=$RANDOM
	flip $seed
	read_all
	umount_dataset mnt
	# What was read before the damage was seen is recorded now.
	read_all
	wait_for 60 recorded
	umount_dataset mnt
done
ls -d cache/index.bad-* > /dev/null || fail "no damage was seen"
