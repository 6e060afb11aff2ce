#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Somebody who is not root mounts through fusermount3, sees what root would, and unmounts;
# the cache is below HOME, whatever the configuration of the system says.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/namespace.sh"
requires fuse root fusermount3 setpriv unshare

everybody_may_mount

mkdir tree mnt
mkdir tree/sub
echo data > tree/file
publish_tree tree mirror d
mkdir -m 700 cache
printf 'cache = %s/cache\nkey = %s/test.key.pub\n' "$T" "$T" > larder.conf
chmod 755 "$T"
chmod 644 test.key.pub
chown 65534 mnt home
as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"
}
as_nobody true 2> /dev/null || skip "cannot be somebody else"
as_nobody fusermount3 --version > /dev/null || skip "fusermount3 does not run"
as_nobody larder mount -c larder.conf "$T/mirror#d" mnt ||
	fail "an ordinary user cannot mount"
[ "$(as_nobody cat mnt/file)" = data ]
[ "$(findmnt -n -o SOURCE,FSTYPE --mountpoint "$T/mnt" | tr -s ' ')" = "$T/mirror#d fuse.larder" ]
expect_fail "ermission denied" cat mnt/file # root was not let in
[ -e home/.cache/larder/larder-cache ] || fail "the cache is elsewhere: $(find home)"
[ -z "$(ls cache)" ]
[ "$(as_nobody larder cat -c larder.conf "$T/mirror#d:file")" = data ]
mkdir -m 777 elsewhere xdg
XDG_CACHE_HOME=$T/xdg as_nobody larder ls -c larder.conf "$T/mirror#d" > said 2>&1 ||
	fail "$(cat said)"
[ -e xdg/larder/larder-cache ] || fail "$(find xdg)"
# one that is relative does not count
(cd elsewhere && XDG_CACHE_HOME=in as_nobody larder ls -c "$T/larder.conf" \
	"$T/mirror#d") > said 2>&1 || fail "$(cat said)"
[ -z "$(ls elsewhere)" ] || fail "a cache at a relative path: $(find elsewhere)"

# Why fusermount3 fails is said at once; only what is in use is tried again.
larder=$(command -v larder) setpriv=$(command -v setpriv)
# umount_by PATH. Not by env(1): what setpriv starts may still look into a
# build directory of root's, what that starts may not.
umount_by() {
	PATH=$1 "$setpriv" --reuid 65534 --regid 65534 --clear-groups -- \
		"$larder" umount mnt
}
setpriv --reuid 65534 --regid 65534 --clear-groups bash -c \
	'cd mnt && touch ../home/inside && exec sleep 1000' &
wait_for 60 test -e home/inside
expect_fail "'$T/mnt' is in use" as_nobody larder umount mnt
kill $!
wait $! || true
mkdir fake
cat > fake/fusermount3 <<SCRIPT
#!/bin/sh
echo >> $T/asked
echo "fusermount3: no entry of yours" >&2
exit 1
SCRIPT
chmod 755 fake/fusermount3
touch asked
chmod 666 asked
expect_fail "cannot unmount '$T/mnt': fusermount3: no entry of yours" \
	umount_by "$T/fake:$PATH"
[ "$(wc -l < asked)" = 1 ] || fail "asked $(wc -l < asked) times"
expect_fail "cannot run fusermount3.*package fuse3" \
	umount_by "$T"
as_nobody larder umount mnt
! grep -q " $T/mnt " /proc/self/mountinfo

mkdir foreign
expect_fail "fusermount3|ermission" as_nobody larder mount -c larder.conf "$T/mirror#d" foreign
expect_fail "allow_root need user_allow_other in /etc/fuse.conf" as_nobody \
	larder mount -c larder.conf -o allow_other "$T/mirror#d" foreign

# somebody else's mount, and one with another below
larder mount -c larder.conf "$T/mirror#d" mnt > /dev/null
expect_fail "'$T/mnt' was mounted by root; only root can unmount it" \
	as_nobody larder umount mnt
larder mount -c larder.conf "$T/mirror#d" mnt/sub > /dev/null
expect_fail "'$T/mnt/sub' is mounted below '$T/mnt'" larder umount mnt
larder umount mnt/sub mnt
