#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mount whose process does not answer holds no command up: status names it, mount and
# umount end within seconds, and a lazy unmount takes it away.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root

mkdir tree
echo data > tree/file
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt
mount_dataset "$T/mirror#d" fine
pid=$(getfattr --only-values -n user.larder.pid mnt)
[ "$(cat mnt/file)" = data ]
exec 5< mnt/file
kill -STOP "$pid"
cleanup_fn kill -CONT "$pid"

bounded() {
	local start=$SECONDS status=0
	timeout 60 "$@" > said 2>&1 < /dev/null || status=$?
	[ $status != 124 ] || fail "hangs: $*"
	[ $((SECONDS - start)) -le 30 ] || fail "took $((SECONDS - start)) s: $*"
	return $status
}
! bounded larder status || fail "a silent mount is fine"
grep -q "^$T/mnt  silent" said || fail "status: $(cat said)"
grep -q "^$T/fine  ok" said || fail "status: $(cat said)"
! bounded larder status --json || fail "a silent mount is fine"
grep -q '"state": "silent"' said
! bounded larder mount -c larder.conf -o "cache=$T/cache,key=$T/test.key.pub" \
	"$T/mirror#d" mnt || fail "mounted on top of a silent mount"
grep -q "'$T/mnt' does not answer" said || fail "mount: $(cat said)"

# held open, it cannot go away; detached, it can
! bounded larder umount mnt || fail "unmounted what is in use"
bounded larder umount -l mnt || fail "umount -l: $(cat said)"
! grep -q " $T/mnt " /proc/self/mountinfo || fail "still there"
exec 5<&-
kill -CONT "$pid"
wait_for 60 lib_has_ended "$pid"
[ "$(cat fine/file)" = data ]

# a signal ends a mount and its process
pid=$(getfattr --only-values -n user.larder.pid fine)
kill -TERM "$pid"
wait_for 60 lib_has_ended "$pid"
! grep -q " $T/fine " /proc/self/mountinfo || fail "left behind by SIGTERM"

# a lock that the caller held is not held by the mount
exec 9> lock
flock 9
mount_dataset "$T/mirror#d" again
exec 9>&-
flock -n lock true || fail "the mount holds its caller's lock"
