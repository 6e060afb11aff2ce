#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# From one moment on every packet of a mirror is lost, in the middle of a body too: a
# reader gets its error in time, a warm read does not notice, a killed reader is gone at
# once, and when packets arrive again so do bytes, without a restart. In a network namespace of its own.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires ip unshare

if [ -z "${IN_NETWORK-}" ]; then
	unshare -n true 2> /dev/null || skip "no network namespace"
	status=0
	# shellcheck disable=SC2016 # for the shell inside
	IN_NETWORK=1 TMPDIR=$T unshare -n bash -c 'ip link set lo up && exec bash "$1"' \
		bash "$top_srcdir/tests/$test_name.sh" || status=$?
	exit $status
fi
requires fuse root net curl getfattr
# What a server sends is looked up before the table of local addresses.
{ ip rule add pref 10 lookup local && ip rule del pref 0; } || skip "no routing rules"

mkdir tree
for name in warm cold1 cold2; do random_file 3000000 tree/$name; done
random_file $((16 << 20)) tree/large
publish_tree tree mirror set
start_httpd mirror
lose() { ip rule add pref 5 ipproto tcp sport "${httpd_url##*:}" blackhole; }
find_again() { ip rule del pref 5; }
{ lose && find_again; } || skip "no rules by port"

mount_dataset "$httpd_url#set" mnt timeout=6s
cmp tree/warm mnt/warm
mount_dataset "$httpd_url#set" patient timeout=300s,cache="$T/cache2"
ls patient > /dev/null

httpd_control 'add=trickle&n=1000000&path=/packs/*'
failing_read mnt/large &
reader=$!
has_begun() { [ "$(cached_bytes mnt/large)" -gt 0 ]; }
wait_for 20 has_begun
lose
lost=$(own_ms)
wait $reader
took=$(($(own_ms) - lost))
echo "the error took $took ms"
[ $took -le 15000 ] || fail "the error took $took ms"
grep -Eq "$EIO|$ETIMEDOUT" said || fail "$(cat said)"
larder_error mnt/large | grep -qF "${httpd_url#http://}" ||
	fail "the error is '$(larder_error mnt/large)'"
drop_caches
within 2000 cmp tree/warm mnt/warm

# It would wait for minutes.
cat patient/cold1 > /dev/null &
reader=$!
sleep 1
! lib_has_ended $reader || fail "it did not wait"
kill -KILL $reader
wait_for 60 lib_has_ended $reader

find_again
httpd_control clear
is_right() { cmp -s "tree/$1" "$2/$1" 2> /dev/null; }
wait_for 30 is_right cold2 mnt
wait_for 30 is_right large mnt
wait_for 30 is_right cold1 patient
for dir in mnt patient; do umount_dataset $dir; done
