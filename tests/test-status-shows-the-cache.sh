#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# status tells how much is cached, pinned and read from disk: of a mount to everybody,
# of a cache that nothing mounts to its owner; a dead mount does not keep it from that.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3 setpriv

mkdir -p tree/a tree/b
head -c 3000000 /dev/urandom > tree/a/large
head -c 1000000 /dev/urandom > tree/b/large
for ((i = 0; i < 40; i++)); do echo "small $i" > tree/b/small$i; done
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt size=1G

# field PYTHON-EXPRESSION: of this test's mount, m
field() {
	larder status --json -c "$T/larder.conf" > json || true
	python3 -c '
import json, sys
m, = [m for m in json.load(open("json"))["mounts"] if m["mountpoint"] == sys.argv[2]]
print(eval(sys.argv[1]))' "$1" "$T/mnt"
}
is_field() { [ "$(field "$1")" = "$2" ]; }

is_field 'm["cached_bytes"]' 0 || fail "$(cat json)"
total=$(field 'm["total_bytes"]')
cat mnt/a/large > /dev/null
wait_for 20 is_field 'm["cached_bytes"]' 3000000
is_field 'm["reads"]["read_bytes"] >= 3000000' True || fail "$(cat json)"
is_field 'm["reads"]["wire_bytes"] >= 3000000' True || fail "$(cat json)"
cat mnt/b/* > /dev/null
wait_for 20 is_field 'm["cached_bytes"]' "$total"
is_field 'm["cache"]["used_bytes"] >= 4000000 and m["cache"]["limit_bytes"] == 1 << 30' True ||
	fail "$(cat json)"
is_field 'm["pinned_bytes"]' 0 || fail "$(cat json)"
larder pin mnt/a > /dev/null
wait_for 20 is_field 'm["pinned_bytes"]' 3000000
is_field '3000000 <= m["cache"]["pinned_bytes"] < 3100000' True || fail "$(cat json)"
is_field 'sorted(m["cache"]["eviction_waits"])' \
	"['longer', 'under_1000_ms', 'under_100_ms', 'under_10_ms', 'under_1_ms']" ||
	fail "$(cat json)"

# what an ordinary user sees is the same; he has no cache
chmod 755 "$T"
setpriv --reuid=65534 --clear-groups larder status -c "$T/larder.conf" > said ||
	fail "$(cat said)"
grep -A1 "^$T/mnt  ok " said > own
grep -q "   cache 3.8 MiB of 1.0 GiB (2.9 MiB pinned)   .* read, .* % from disk$" own ||
	fail "$(cat said)"
grep -q "  [0-9a-f]\{12\}  3.8 MiB of 3.8 MiB cached, 100 %, partly pinned$" own ||
	fail "$(cat said)"

# read again without the page cache: from the disk
larder umount mnt
mount_dataset "$T/mirror#d" mnt size=1G
drop_caches
cat mnt/b/* > /dev/null
is_field 'm["reads"]["fetched_bytes"] + m["reads"]["wire_bytes"]' 0 || fail "$(cat json)"

# dead: the others are shown, and the cache as well
pid=$(getfattr --only-values -n user.larder.pid mnt)
kill -9 "$pid"
status=0
larder status -o "cache=$T/cache" > said || status=$?
[ $status = 1 ] || fail "exit $status: $(cat said)"
grep -q "^$T/mnt  dead" said || fail "$(cat said)"
grep -q "^$T/cache   cache 3.8 MiB of .* (2.9 MiB pinned)$" said || fail "$(cat said)"
umount -l mnt
larder status --json -o "cache=$T/cache" | python3 -c '
import json, sys
cache = json.load(sys.stdin)["cache"]
assert cache["records"] and cache["used_bytes"] >= 4000000 and cache["blobs"] == 3, cache'
# nothing is made by looking
larder status -o "cache=$T/absent" > /dev/null || true
[ ! -e absent ] || fail "status makes a cache"
