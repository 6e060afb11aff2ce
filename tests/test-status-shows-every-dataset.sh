#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# status asks the mounts, not the configuration: the state and the reason of a single
# dataset and of each of several, without the -c they were mounted with. What is stale
# is no failure; what has failed is.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3 getfattr

mkdir tree mnt
echo data > tree/file
publish_tree tree mirror d
mount_dataset "$T/mirror#d" single refresh=500ms
larder status > said || fail "status: $(cat said)"
grep -q "^$T/single  ok" said || fail "$(cat said)"

mv mirror gone
wait_for 20 eval '[ "$(getfattr --only-values -n user.larder.state single)" = stale ]'
larder status > said || fail "stale is a failure: $(cat said)"
grep -q "^$T/single  stale" said || fail "$(cat said)"
grep -q "^  reason: .*mirror" said || fail "$(cat said)"
grep -q "^  action: " said || fail "$(cat said)"
larder status --json | python3 -c '
import json, sys
mount, = [m for m in json.load(sys.stdin)["mounts"] if m["mountpoint"].endswith("/single")]
assert mount["state"] == "stale" and "mirror" in mount["reason"], mount'
mv gone mirror
umount_dataset single

cat > every.conf <<CONF
[larder]
cache = $T/cache
key = $T/test.key.pub
fsname = another
[one]
mirror = $T/mirror
name = d
[deep/two]
mirror = $T/mirror
name = d
[down]
mirror = $T/nowhere
CONF
larder mount -c every.conf mnt > /dev/null
[ "$(cat mnt/one/file)" = data ]
larder status > said || fail "status: $(cat said)"
grep -q "^  one  .* ok$" said || fail "$(cat said)"
grep -q "^  deep/two  .* cold$" said || fail "$(cat said)"
grep -q "^  down  .* cold$" said || fail "$(cat said)"
# of what was never opened there is nothing to be told
[ -z "$(getfattr --only-values -n user.larder.figures mnt/down 2> /dev/null)" ] ||
	fail "$(getfattr -d -m - mnt/down)"
getfattr --only-values -n user.larder.figures mnt/one | grep -q '^snapshot ' ||
	fail "no figures of what is open"
# what is opened just after the others were counted is counted at once
is_here() { [ "$(getfattr --only-values -n user.larder.cached mnt/deep/two/file)" = 5 ]; }
cat mnt/deep/two/file > /dev/null
wait_for 60 is_here
larder status > said
grep -q "^  deep/two  .*  5 B  *5 B  100  .* ok$" said || fail "$(cat said)"
# a typing error in the configuration hides no mount
echo "no key" > bad.conf
! larder status -c bad.conf > said 2> why || fail "a fault of the configuration is none"
grep -q "bad.conf:1: " why || fail "$(cat why)"
grep -q "^  one  .* ok$" said || fail "$(cat said)"
larder ls mnt/one > said
[ "$(cat said)" = file ] || fail "ls of a path: $(cat said)"
[ "$(larder cat mnt/deep/two/file)" = data ] || fail "cat of a path"
larder du mnt/one | grep -q 5 || fail "du of a path"
expect_fail "name one of the directories" larder ls mnt
expect_fail "not on a larder mount: if it is a mirror" larder ls mirror

expect_fail . cat mnt/down/file
! larder status > said || fail "failed is fine"
grep -q "^  down  .* failed$" said || fail "$(cat said)"
grep -q "^    reason: .*nowhere" said || fail "$(cat said)"
larder umount mnt

# Tried again or not: the next step is another.
cat >> every.conf <<CONF
[odd]
mirror = $T/mirror
name = d
key = $T/no.pub
CONF
larder mount -c every.conf mnt > /dev/null 2>&1
expect_fail . cat mnt/down/file
! larder status > said || fail "failed is fine"
grep -A2 "^  odd " said | grep -q "^    action: mend that and mount again" ||
	fail "$(cat said)"
grep -A2 "^  down " said | grep -q "^    action: .* tries again" ||
	fail "$(cat said)"
larder umount mnt
