#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A section that can never work (no key, an unreadable key, no mirror) is warned of with
# file and line, fails at use with its own reason, and does not touch the others.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root getfattr

mkdir tree mnt
echo data > tree/file
publish_tree tree mirror d
cat > every.conf <<CONF
[larder]
cache = $T/cache
[good]
mirror = $T/mirror
name = d
key = $T/test.key.pub
[deep/no-key]
mirror = $T/mirror
[bad-key]
mirror = $T/mirror
key = $T/absent.pub
[no-mirror]
key = $T/test.key.pub
CONF
larder mount -c every.conf mnt > /dev/null 2> said || fail "$(cat said)"
grep -q "every.conf:7: \[deep/no-key\].*no trusted key" said || fail "$(cat said)"
grep -q "every.conf:9: \[bad-key\].*absent.pub" said || fail "$(cat said)"
grep -q "every.conf:12: \[no-mirror\].*no mirror" said || fail "$(cat said)"
[ "$(wc -l < said)" = 3 ] || fail "$(cat said)"
[ "$(cat mnt/good/file)" = data ]
[ "$(ls mnt | tr '\n' ' ')" = "bad-key deep good no-mirror " ]
for name in deep/no-key bad-key no-mirror; do
	expect_fail "Input/output error" ls mnt/$name
	expect_fail "Input/output error" cat mnt/$name/file
	[ "$(getfattr --only-values -n user.larder.state mnt/$name)" = failed ]
done
getfattr --only-values -n user.larder.error mnt/bad-key | grep -q absent.pub
! larder status > said || fail "status: $(cat said)"
grep -q "reason: .*every.conf:12: \[no-mirror\]" said || fail "$(cat said)"
larder umount mnt

# a word that makes no sense still ends it all, and so does nothing to serve
sed -i 's/^name = d/nmae = d/' every.conf
expect_fail "every.conf:5" larder mount -c every.conf mnt
printf '[a]\nmirror = /x\n[b]\nmirror = /x\n' > none.conf
expect_fail "none.conf:[13]: \[[ab]\].*no trusted key" \
	larder mount -c none.conf -o "cache=$T/cache" mnt
! grep -q "$T/" /proc/self/mountinfo || fail "something was mounted"
printf '[a]\nmirror = /x\n[hub]\nsource = hub\n' > odd.conf
expect_fail "odd.conf:3: \[hub\]: 'hub' is no source" \
	larder mount -c odd.conf -o "cache=$T/cache" mnt
printf 'insecure = yes\n[a]\nmirror = /x\n[a/b]\nmirror = /x\n' > odd.conf
expect_fail "odd.conf:4: dataset 'a/b' lies inside dataset 'a'" \
	larder mount -c odd.conf -o "cache=$T/cache" mnt
printf '[a]\nmirror = /x\ngated = group\n' > odd.conf
expect_fail "odd.conf:3: 'gated' is for all: it stands before the first" \
	larder mount -c odd.conf -o "cache=$T/cache" mnt
