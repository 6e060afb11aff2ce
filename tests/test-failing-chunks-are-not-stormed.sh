#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# 50 readers who will not take no for an answer, through two mounts of one
# cache: a chunk that fails is asked for at most five times a second, whatever
# it fails of, and is read as soon as it can be.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir tree
random_file 300000 tree/file
publish_tree tree mirror storm
start_httpd mirror
mount_dataset "$httpd_url#storm" one timeout=3s
mount_dataset "$httpd_url#storm" two timeout=3s
ls one two > /dev/null

for fault in 'flip&n=1000' 'status&n=503' 'status&n=403' 'status&n=404' \
	close html200; do
	httpd_control "clear&add=$fault&path=/packs/*"
	httpd_forget
	python3 - <<-'PYTHON'
		import threading, time
		end, wins = time.monotonic() + 3, []
		def read(path):
		    while time.monotonic() < end:
		        try:
		            open(path, "rb").read()
		            wins.append(path)
		        except OSError:
		            time.sleep(0.01)
		readers = [threading.Thread(target=read, args=[f"{mnt}/file"])
		           for mnt in ("one", "two") for i in range(25)]
		begin = time.monotonic()
		for r in readers: r.start()
		for r in readers: r.join()
		assert not wins, "somebody read something"
		open("lasted", "w").write("%d" % (time.monotonic() - begin + 1))
	PYTHON
	tries=$(httpd_requests /packs/)
	[ "$tries" -ge 1 ] || fail "$fault: never asked"
	[ "$tries" -le $((5 * $(cat lasted))) ] ||
		fail "$fault: $tries tries in $(cat lasted) s"
done
httpd_control clear
wait_for 60 cmp -s tree/file one/file
wait_for 60 cmp -s tree/file two/file
