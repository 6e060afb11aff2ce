#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each reason why a mount cannot be made is an error that names the thing; a mount whose process
# died is replaced; a busy one is not unmounted by force.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root net

mkdir tree mnt other
echo data > tree/file
publish_tree tree mirror d
larder keygen other.key > /dev/null
key=$T/test.key.pub
source=$T/mirror#d
try() {
	timeout 30 larder mount -c larder.conf -o "cache=$T/cache,key=$key,timeout=2s" "$@"
}
# Who waits at a terminal is told so, long before it fails: looked at below.
waiting=()
for words in "ls http://127.0.0.1:1/m#d" "mount http://127.0.0.1:1/m#d $T/other"; do
	script -qc "larder $words -c larder.conf -o cache=$T/tty-cache,key=$key,timeout=9s" \
		"tty.${words%% *}" < /dev/null > /dev/null 2>&1 &
	waiting+=($!)
done
expect_fail "'$T/absent' does not exist" try "$source" "$T/absent"
expect_fail "'$T/tree/file' is not a directory" try "$source" tree/file
expect_fail "MOUNTPOINT is missing" try
for alone in "$source" hf://owner/name "http://127.0.0.1:1/m#d"; do
	status=0
	try "$alone" 2> said || status=$?
	[ $status = 2 ] || fail "mount $alone ended with $status"
	grep -q "MOUNTPOINT is missing" said || fail "$(cat said)"
done
expect_fail "no dataset is configured" try mnt
expect_fail "neither a configured dataset nor MIRROR#NAME" try nonsense mnt
expect_fail "'$T/mirror' is a directory.*'$T/mirror#NAME' .larder log" try "$T/mirror" mnt
expect_fail "'./none' is neither a path that exists nor a configured" try ./none mnt
expect_fail "'http://127.0.0.1:1/m' names a mirror.*write 'http://127.0.0.1:1/m#NAME'" \
	try http://me:secret@127.0.0.1:1/m mnt
expect_fail "gated: 'all' is none of: owner, group, everyone" try -o gated=all "$source" mnt
expect_fail "unknown option|did you mean" try --cahce=/x "$source" mnt
expect_fail "cannot|no such|not" try "$T/nowhere#d" mnt
expect_fail "other" try "$T/mirror#other" mnt
expect_fail "127.0.0.1" try "http://127.0.0.1:1/m#d" mnt
expect_fail "sign|key" larder mount -c larder.conf \
	-o "cache=$T/cache3,key=$T/other.key.pub" "$source" mnt
expect_fail "key" larder mount -c larder.conf -o "cache=$T/cache3" "$source" mnt
expect_fail "absent.pub" larder mount -c larder.conf -o "cache=$T/c,key=absent.pub" "$source" mnt
expect_fail "^larder mount: cannot read key '[^']*absent.pub': [^']*$" \
	larder mount -c larder.conf -o "cache=$T/c,key=absent.pub" "$source" mnt
expect_fail "'$T/no.pem'" try --ca=no.pem "$source" mnt
expect_fail "'bogus' is no module .all, cache," try --debug=cache,bogus "$source" mnt
expect_fail "^mount.larder --help shows" mount.larder
expect_fail "no.conf" larder mount -c no.conf "$source" mnt
printf '[a]\nmirror = /x\nmirrror = /y\n' > bad.conf
expect_fail "bad.conf:3" larder mount -c bad.conf mnt
printf '[a]\nmirror = /x\n[a/b]\nmirror = /x\n' > bad.conf
expect_fail "inside dataset" larder mount -c bad.conf -o "cache=$T/cache,key=$key" mnt
printf '[a]\n' > bad.conf
expect_fail "bad.conf:1: \[a\]: .* has no mirror" larder mount -c bad.conf -o "cache=$T/cache" mnt
! grep -q "$T/" /proc/self/mountinfo || fail "something was mounted"

# the success line; "already mounted"
try "$source" mnt > said
grep -qE "^d: 5 B in [0-9]+ entr(y|ies) at $T/mnt$" said || fail "$(cat said)"
expect_fail "already mounted at '$T/mnt'" try "$source" mnt
expect_fail "already mounted at '$T/mnt'" try "$source" "$T/other/../mnt/"

# in use: said, and left alone
exec 5< mnt/file
expect_fail "in use.*larder umount -l" larder umount mnt
[ "$(cat mnt/file)" = data ]
exec 5<&-
# Who only passes by is waited for.
(exec 5< mnt/file; : > looks; sleep 0.1) &
wait_for 60 test -e looks
larder umount mnt
wait $!
expect_fail "no larder mount at '$T/mnt'" larder umount mnt
expect_fail "no larder mount at" larder umount /proc

# a dead one is replaced, and old descriptors fail at once
try "$source" mnt > /dev/null
exec 5< mnt/file
kill -9 "$(getfattr --only-values -n user.larder.pid mnt)"
wait_for 60 eval '! cat mnt/file 2> /dev/null'
expect_fail "not connected" cat mnt/file
expect_fail "dead" larder status
try "$source" mnt > /dev/null
[ "$(cat mnt/file)" = data ]
timeout 5 cat <&5 > /dev/null || [ $? != 124 ] || fail "an old descriptor hangs"
exec 5<&-
[ "$(grep -c " $T/mnt " /proc/self/mountinfo)" = 1 ]
kill -9 "$(getfattr --only-values -n user.larder.pid mnt)"
larder umount mnt
! grep -q "$T/" /proc/self/mountinfo

# without its mirror a single dataset mounts from the last head, at once
mv mirror gone
try "$source" mnt > /dev/null || fail "does not mount from the last head"
[ "$(ls mnt)" = file ]
larder umount mnt

# Closed descriptors and a small limit on the size of files do no harm.
mv gone mirror
(
	ulimit -f 16
	try "$source" mnt <&- 2>&- > /dev/null
) || fail "does not mount with descriptors closed"
[ "$(cat mnt/file)" = data ]
larder umount mnt
# nobody hears that it is mounted: it is
try "$source" mnt 2> said >&- || fail "no standard output: $(cat said)"
grep -q "mounted, but cannot write" said || fail "$(cat said)"
larder umount mnt
try "$source" mnt 2> said > /dev/full || fail "standard output is full: $(cat said)"
grep -q "mounted, but cannot write" said || fail "$(cat said)"
larder umount mnt
expect_fail "cannot write the list" \
	bash -c "larder ls -o 'cache=$T/ls-cache,insecure' '$source' >&-"

# a line of the configuration is named once
printf '[a]\nmirror = /m\n[a]\n' > twice.conf
expect_fail '^larder mount: twice.conf:3: there is another section \[a\]' \
	larder mount -c twice.conf mnt
printf '[../x]\n' > outside.conf
expect_fail "^larder mount: outside.conf:1: '../x' cannot be the name" \
	larder mount -c outside.conf mnt

# every setting has its real default, and none is shown that is not for people
larder mount -c larder.conf --print-config > said
for line in 'cache = /var/cache/larder' 'size = 80%' 'min-free = 5%' 'allow_other = yes' \
	'insecure = no'; do
	grep -q "^$line ; default$" said || fail "no '$line': $(cat said)"
done
! grep -E 'user_id|remount|subtype|max_read' said || fail "hidden names are shown"

# typing errors
expect_fail "did you mean 'mount'" larder moutn x y
expect_fail "no command" larder frobnicate
expect_fail "did you mean 'mount'" larder help moutn
larder help --help | grep -q '^usage: larder COMMAND' || fail "help --help"
: > empty.conf
larder ls -c empty.conf 2> said || fail "an empty list failed: $(cat said)"
grep -q "^larder ls: no dataset is configured in 'empty.conf'" said || fail "$(cat said)"
status=0
larder help bogus 2> /dev/null || status=$?
[ $status = 2 ] || fail "help bogus is $status"
mkdir no-man
printf '#!/bin/sh\nexit 16\n' > no-man/man
chmod +x no-man/man
expect_fail "try: larder mount --help" env PATH="$T/no-man:$PATH" larder help mount
status=0
larder ls --no-such 2> /dev/null || status=$?
[ $status = 2 ] || fail "usage is $status"

wait "${waiting[@]}" || :
for command in ls mount; do
	grep -q '127.0.0.1:1/m: connection refused' "tty.$command" || fail "$(cat "tty.$command")"
	[ "$(grep -c "^larder $command: no answer yet, waiting" "tty.$command")" = 1 ] ||
		fail "not told, or not once: $(cat "tty.$command")"
done
