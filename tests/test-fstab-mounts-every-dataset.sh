#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One fstab line mounts all of /etc/larder: two datasets of two mirrors and a
# third whose mirror is down, which gives its own error, soon, and does not touch
# the others.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/namespace.sh"
requires fuse root net nginx python3
in_namespace

mkdir tree1 tree2 datasets
echo one > tree1/file
echo two > tree2/file
publish_tree tree1 mirror1 one
publish_tree tree2 mirror2 the-second
start_nginx mirror2
mkdir -p "$etc_larder/datasets.d"
cat > "$etc_larder/larder.conf" <<CONF
cache = $T/cache
timeout = 2s
[larder]
key = $T/test.key.pub
[one]
mirror = $T/absent
mirror = $T/mirror1
[deep/two]
mirror = $nginx_url
name = the-second
CONF
cat > "$etc_larder/datasets.d/down.conf" <<CONF
[down]
mirror = http://127.0.0.1:1/m
CONF

echo "larder $T/datasets larder nofail 0 0" > fstab
findmnt --verify -F fstab > said 2>&1 || true
grep -q "^0 parse errors, 0 errors" said || fail "$(cat said)"
mount -T fstab -a
[ "$(findmnt -n -o SOURCE,FSTYPE --mountpoint "$T/datasets" | tr -s ' ')" = \
	"larder fuse.larder" ]

# listing asks nobody and knows all names
[ "$(ls datasets)" = "$(printf 'deep\ndown\none')" ] || fail "$(ls datasets)"
ls -l datasets datasets/deep > /dev/null
[ "$(getfattr --only-values -n user.larder.state datasets/one)" = cold ]
[ "$(cat datasets/one/file)" = one ]
[ "$(cat datasets/deep/two/file)" = two ]
expect_fail "Input/output error|timed out|unreachable|refused" ls datasets/down
expect_fail "." cat datasets/down/file
! ls datasets/down/file 2>&1 | grep -q "No such file" || fail "down is not absent"
[ "$(getfattr --only-values -n user.larder.state datasets/down)" = failed ]
getfattr --only-values -n user.larder.error datasets/down | grep -q 127.0.0.1
[ "$(cat datasets/one/file datasets/deep/two/file | tr -d '\n')" = onetwo ]
expect_fail "No such file" stat datasets/absent

# "." and ".." agree with stat, at every level
python3 - <<'PY'
import os
for path in ('datasets', 'datasets/deep', 'datasets/deep/two', 'datasets/one'):
    for entry in os.scandir(path):
        assert entry.inode() == entry.stat(follow_symlinks=False).st_ino, entry.path
assert os.path.samefile('datasets/deep/two/..', 'datasets/deep')
PY

! larder status > said || fail "a failed dataset is fine: $(cat said)"
grep -q "^$T/datasets  ok" said
grep -q "^  one .* ok$" said
grep -q "^  down .* failed$" said
(larder status --json || true) | python3 -c '
import json, sys
status = json.load(sys.stdin)
assert status["format"] == 1
mounts = [m for m in status["mounts"] if m["mountpoint"].endswith("/datasets")]
states = {d["name"]: d["state"] for d in mounts[0]["datasets"]}
assert states == {"one": "ok", "deep/two": "ok", "down": "failed"}, states'
[ "$(larder ls | sort)" = "$(printf 'deep/two\ndown\none')" ]
[ "$(larder cat one:file)" = one ]
expect_fail "did you mean 'one'" larder cat ona:file

# a second line for one of them, by its name
mkdir single
mount -t larder one single
[ "$(cat single/file)" = one ]
larder umount single datasets
! larder status | grep -Eq "^$T/(datasets|single) " || fail "something is left"
