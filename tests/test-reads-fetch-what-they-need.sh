#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Who looks at the beginning of each file fetches a chunk of each at most; random reads fetch
# the chunks they touch, at most 15 times their bytes, and nothing ahead; the first byte takes two
# requests one after the other.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net nginx python3

python3 - <<'PY'
import os, random
r = random.Random(11)
os.makedirs("tree/many/small")
for i in range(240):
    open(f"tree/many/small/{i:03}", "wb").write(r.randbytes(r.randrange(1, 60000)))
for i in range(24):
    open(f"tree/many/{i:02}", "wb").write(r.randbytes(r.randrange(140000, 5000000)))
open("tree/large", "wb").write(r.randbytes(80 << 20))
PY
publish_tree tree mirror set
start_nginx mirror
mount_dataset "$nginx_url#set" mnt

# frames: how many frames the requests so far asked for, in how many requests, and their bytes.
frames() {
	python3 - "$nginx_log" <<'PY'
import glob, struct, sys
frames = {}
for path in glob.glob("mirror/packs/*/*"):
    data = open(path, "rb").read()
    table, = struct.unpack_from("<Q", data, len(data) - 24)
    count, = struct.unpack_from("<I", data, table + 16)
    starts = [struct.unpack_from("<Q", data, table + 24 + 48 * i + 32)[0] for i in range(count)]
    frames[path[len("mirror"):]] = starts
count = requests = size = 0
for line in open(sys.argv[1]):
    words = line.split()
    if not words[1].startswith("/packs/"):
        continue
    first, last = map(int, words[5].split("=")[1].split("-"))
    count += sum(first <= start <= last for start in frames[words[1]])
    requests += 1
    size += last + 1 - first
print(count, requests, size)
PY
}

: > "$nginx_log"
head -c 1 mnt/large > byte
sed 's/ HTTP.*//' "$nginx_log" > asked
# Once the list of chunks is here.
[ "$(grep -vc objects asked)" -le 2 ] || fail "the first byte took $(cat asked)"

: > "$nginx_log"
python3 - <<'PY'
import os
for root, _, names in os.walk("mnt/many"):
    for name in sorted(names):
        with open(os.path.join(root, name), "rb", buffering=0) as f:
            assert f.read(4096)
PY
read -r count requests size <<< "$(frames)"
[ "$count" -le 264 ] || fail "$count chunks for 264 files"
# Of the larger files one each; the small ones share theirs.
large=$((count - $(du -sb tree/many/small | cut -f 1) / (256 << 10) - 1))
[ "$large" -le 24 ] || fail "$count chunks in $requests requests"

: > "$nginx_log"
python3 - <<'PY'
import os, random
r = random.Random(5)
f = os.open("mnt/large", os.O_RDONLY)
good = os.open("tree/large", os.O_RDONLY)
for _ in range(25):
    at = r.randrange(0, (80 << 20) - 102400)
    assert os.pread(f, 102400, at) == os.pread(good, 102400, at)
PY
read -r count requests size <<< "$(frames)"
[ "$count" -le 50 ] && [ "$requests" -le 25 ] || fail "$count chunks in $requests requests for 25 reads"
[ "$size" -le $((15 * 25 * 102400)) ] || fail "$size bytes for $((25 * 102400))"
[ "$(getfattr --only-values -n user.larder.cached mnt/large)" -le $((size + (4 << 20))) ] ||
	fail "more is here than was read"
umount_dataset mnt
