#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# pin, unpin and evict by directory of a mount and by source: what is pinned or being
# read stays and is named, the rest goes and comes back; only the cache's owner may.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3 getfattr script setpriv

mkdir -p tree/keep tree/other
for name in keep/a keep/b other/c other/d; do
	head -c 3000000 /dev/urandom > tree/$name
done
for i in 1 2 3; do echo "small $i" > tree/other/small$i; done
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt size=1G

cached() { getfattr --only-values -n user.larder.cached "mnt/$1"; }
is_cached() { [ "$(cached "$1")" = "$(stat -c %s "mnt/$1")" ]; }
read_all() {
	drop_caches # or the kernel answers
	cat mnt/*/* > /dev/null
	for name in keep/a keep/b other/c other/d other/small1; do
		wait_for 20 is_cached $name
	done
}
is_gone() { [ "$(cached "$1")" = 0 ]; }
evict() {
	status=0
	larder evict -y "$@" > said 2>&1 || status=$?
}

# before it is here, by directory and pattern
larder pin mnt 'keep' > said || fail "$(cat said)"
grep -q "^pinned 5.7 MiB in 2 files of $T/mirror#d; 0 B of it cached" said || fail "$(cat said)"
read_all
status=0
larder evict --dry-run mnt > said || status=$?
grep -q "^would evict 5.7 MiB in 3 blobs" said || fail "$(cat said)"
grep -q "left 5.7 MiB in 2 blobs: pinned" said || fail "$(cat said)"
[ $status = 1 ] || fail "something was left, but exit $status"
is_cached other/c

# at a terminal it asks
status=0
echo n | script -qec 'larder evict mnt' /dev/null > said || status=$?
[ $status = 1 ] && grep -q 'evict? \[y/N\]' said || fail "exit $status: $(cat said)"
is_cached other/c || fail "evicted without a yes"

# the name of a dataset is no path's, also where one begins with the other
printf '[others]\nmirror = %s/mirror\n' "$T" > others.conf
(cd mnt && larder evict --dry-run -c ../others.conf other) > said || fail "$(cat said)"
grep -q "^would evict 5.7 MiB in 3 blobs" said || fail "$(cat said)"

evict mnt
[ $status = 1 ] || fail "exit $status: $(cat said)"
grep -q "^evicted 5.7 MiB in 3 blobs" said || fail "$(cat said)"
grep -q "left 5.7 MiB in 2 blobs: pinned" said || fail "$(cat said)"
is_cached keep/a && is_cached keep/b || fail "a pinned file has gone"
is_gone other/c && is_gone other/d && is_gone other/small1 || fail "not all has gone"
cmp tree/other/c mnt/other/c && cmp tree/other/small2 mnt/other/small2

# another pin of the same, by source
larder pin -c larder.conf -o "cache=$T/cache,key=$T/test.key.pub" "$T/mirror#d:keep" a > said ||
	fail "$(cat said)"
larder pin -c larder.conf -o "cache=$T/cache" > said
grep -q "^$T/mirror#d 'keep'$" said || fail "$(cat said)"
grep -q "^$T/mirror#d:keep 'a'$" said || fail "$(cat said)"
# small files lie together with others, and are kept with them
larder pin mnt 'other/small1' > said
grep -q "^  with what lies beside them .*: [0-9]" said || fail "$(cat said)"
larder unpin mnt 'other/small1' > /dev/null
! grep -q "lies beside" <(larder pin mnt 'keep/a') || fail "a whole file"
larder unpin mnt 'keep/a' > /dev/null
expect_fail "nothing like that" larder unpin mnt/other
expect_fail "no file matches 'nothing'" larder pin mnt 'nothing'
larder unpin mnt 'keep' > said
grep -q "^unpinned 5.7 MiB of $T/mirror#d" said || fail "$(cat said)"
read_all
evict mnt/keep
grep -q "^evicted 2.9 MiB in 1 blob$" said || fail "$(cat said)"
is_cached keep/a && is_gone keep/b || fail "the other pin was not looked at"
larder unpin mnt > /dev/null
larder evict mnt/keep/a > said || fail "$(cat said)"
is_gone keep/a || fail "an unpinned file stays"

# being read
mkfifo pipe
larder cat -c larder.conf -o "cache=$T/cache,key=$T/test.key.pub" "$T/mirror#d:other/d" > pipe &
exec 3< pipe
head -c 1 <&3 > /dev/null
evict mnt/other/d
[ $status = 1 ] || fail "exit $status: $(cat said)"
grep -q "left .* in 1 blob: a process is reading" said || fail "$(cat said)"
exec 3<&-
wait $! || true
larder evict --json mnt/other/d | python3 -c '
import json, sys
said = json.load(sys.stdin)
assert said["format"] == 1 and said["evicted_blobs"] == 1 and said["open_blobs"] == 0, said'
is_gone other/d || fail "a file stays that nobody reads any more"

# who may not, what is not there
chmod 755 "$T"
expect_fail "mount of root" setpriv --reuid=65534 --clear-groups larder evict "$T/mnt/keep"
expect_fail "not on a larder mount" larder pin "$T/tree"
expect_fail "neither a path that exists nor a configured" larder pin "$T/absent"
umount_dataset mnt
# more than the cache may hold
mount_dataset "$T/mirror#d" mnt size=8M
expect_fail "cannot pin 11.4 MiB.*may hold 8.0 MiB" larder pin mnt
larder pin mnt/keep > /dev/null
umount_dataset mnt
