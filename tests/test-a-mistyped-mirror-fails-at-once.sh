#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A path that leads nowhere is a mistake, and every command says so without
# asking again; where the cache knows the dataset, it is served with a warning
# that says what to do. One below an empty directory may be a disk that is not mounted
# yet: a mount waits for it, or finds it later where it serves other datasets.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root

mkdir tree mnt two disk
for name in set late wrong; do
	echo "$name" > tree/file
	publish_tree tree mirror $name
done

# What is asked again and again takes 10 s.
at_once() {
	local start
	start=$(own_ms)
	expect_fail "$1" larder "${@:2}"
	[ $(($(own_ms) - start)) -lt 8000 ] || fail "it was asked again: $1"
}
options=(-o "key=test.key.pub,cache=cache")
for command in ls du prefetch refresh pin; do
	at_once "$T/miror: no such directory" "$command" "${options[@]}" \
		"$T/miror#set"
done
at_once "$T/miror: no such directory" cat "${options[@]}" "$T/miror#set:file"
at_once "$T/miror: no such directory" mount -f "${options[@]}" "$T/miror#set" mnt
at_once "$T/tree/file: not a directory" ls "${options[@]}" "$T/tree/file#set"
at_once "$T/tree: no larder mirror there" ls "${options[@]}" "$T/tree#set"

# A second mirror is asked all the same.
cat > every.conf <<CONF
[larder]
cache = $T/cache
key = $T/test.key.pub
[both]
mirror = $T/miror
mirror = $T/mirror
name = set
[late]
mirror = $T/disk/mirror
[wrong]
mirror = $T/tree/mirror
CONF
[ "$(larder cat -c every.conf both:file)" = set ]

larder mount -c every.conf -o timeout=3s mnt > /dev/null
[ "$(cat mnt/both/file)" = set ]
expect_fail "Input/output error" cat mnt/wrong/file
! cat mnt/late/file 2> /dev/null || fail "nothing is there"

# It is mounted now; and somebody who mounts it alone has waited.
larder mount -c every.conf late two > /dev/null 2> waited &
mounting=$!
sleep 2
kill -0 "$mounting" || fail "it did not wait: $(cat waited)"
cp -a mirror disk/.tmp
mv disk/.tmp disk/mirror
wait "$mounting" || fail "mount: $(cat waited)"
[ "$(cat two/file)" = late ]
for name in late wrong; do
	[ $name = late ] || cp -a mirror tree/mirror
	wait_for 30 cat mnt/$name/file > got
	grep -q "$name" got || fail "$name: $(cat got)"
done
umount_dataset two
umount_dataset mnt

# What the cache has is served, as when nobody can be asked; but a mirror that
# has it not, or is none, is told of as what does not pass.
served() { # SOURCE REASON HELP-COUNT
	mount_dataset "$1" mnt timeout=3s
	[ "$(cat mnt/file)" = set ]
	grep -q "'set' is served as it was at 2.*Z: $2" mount.err ||
		fail "$(cat mount.err)"
	[ "$(grep -c 'if the source is mistyped, give the right' mount.err)" = "$3" ] ||
		fail "$(cat mount.err)"
	larder status > said || true
	[ "$(grep -c 'action: check the source' said)" = "$3" ] || fail "$(cat said)"
	umount_dataset mnt
}
served "$T/miror#set" "$T/miror: no such directory" 1
served "http://127.0.0.1:1/mirror#set" ".*refused" 0
mv mirror/heads/set .
served "$T/mirror#set" ".*no dataset 'set' there" 1
mv set mirror/heads
mount_dataset "$T/mirror#set" mnt
! grep -q 'served as it was' mount.err || fail "$(cat mount.err)"
umount_dataset mnt
