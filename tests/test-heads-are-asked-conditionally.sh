#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A head that has not changed is not sent again; a new one is, and then that one
# not again. A mirror that has moved and is down is no reason to forget the last
# good head, nor to go back to an older one.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir tree
echo one > tree/file
publish_tree tree mirror cond
cp -a mirror old
start_httpd mirror
mount_dataset "$httpd_url#cond" mnt refresh=300ms
[ "$(cat mnt/file)" = one ]

answers() { # STATUS COUNT
	[ "$(httpd_log_sum "r['status'] == $1" /heads/)" -ge "$2" ]
}
wait_for 20 answers 304 2
[ "$(httpd_log_sum 'r["status"] == 200' /heads/)" = 1 ] ||
	fail "an unchanged head was sent again"
echo two > tree/file
publish_tree tree mirror cond
wait_for 20 grep -qx two mnt/file
httpd_forget
wait_for 20 answers 304 2
[ "$(httpd_log_sum 'r["status"] == 200' /heads/)" = 0 ] ||
	fail "the new head was sent again"
umount_dataset mnt

# That nothing has changed makes no expired head good.
publish_tree tree mirror cond --expires 3s
mount_dataset "$httpd_url#cond" mnt refresh=1h,expired=refuse
httpd_forget
larder refresh mnt > /dev/null
answers 304 1 || fail "the head was sent again"
sleep 4
expect_fail "cond' stays as it was: .*head has expired" larder refresh mnt
answers 304 2 || fail "the expired head was sent again"
publish_tree tree mirror cond
larder refresh mnt > /dev/null
[ "$(cat mnt/file)" = two ]
umount_dataset mnt

# Elsewhere now, and not there: what was good last is served.
port=${httpd_url##*:}
kill "$httpd_pid"
wait_for 60 lib_has_ended "$httpd_pid"
mount_dataset "http://localhost:$port/moved#cond" mnt timeout=3s
[ "$(cat mnt/file)" = two ] || fail "the last good head is forgotten"
umount_dataset mnt
start_httpd old
mount_dataset "$httpd_url#cond" mnt timeout=3s
[ "$(cat mnt/file)" = two ] || fail "back to an older head"
