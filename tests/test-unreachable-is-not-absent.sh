#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror that answers 503, 401, 404 or nothing, or whose name is unknown:
# larder starts from its last good head, warm files are right,
# ls is complete, cold files give an error that is never ENOENT, the cache
# keeps what it has, and all is well soon after the mirror is.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir tree
for i in $(seq 30); do random_file 150000 tree/warm$i; done
random_file 3000000 tree/cold
publish_tree tree mirror faults
start_httpd mirror
mount_dataset "$httpd_url#faults" mnt
for i in $(seq 30); do cmp tree/warm$i mnt/warm$i; done
umount_dataset mnt
held=$(bytes_of cache/blobs)

check_faulty() {
	mount_dataset "$1#faults" mnt timeout=4s
	for i in $(seq 30); do cmp tree/warm$i mnt/warm$i; done
	[ "$(ls mnt)" = "$(ls tree)" ] || fail "$2: ls is not complete"
	within 9000 expect_errno "$EIO|$EACCES|$ETIMEDOUT" cat mnt/cold
	[ "$(bytes_of cache/blobs)" -ge "$held" ] || fail "$2: the cache shrank"
	larder umount mnt
}

for fault in 'status&n=503' 'status&n=401' 'status&n=404' silent close garbage; do
	httpd_control "clear&add=$fault"
	check_faulty "$httpd_url" "$fault"
done
# The last good head is the dataset's, whatever the mirror is called.
check_faulty http://no-such-host.invalid 'unknown name'
expect_fail 'no-such-host.invalid: name of the host not found' larder mount \
	-o "cache=$T/empty,key=$T/test.key.pub,timeout=4s" \
	http://no-such-host.invalid#faults mnt

# It recovers by itself.
httpd_control "clear&add=status&n=503"
mount_dataset "$httpd_url#faults" mnt timeout=4s
expect_errno "$EIO" cat mnt/cold
httpd_control clear
wait_for 60 cmp -s tree/cold mnt/cold
