#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror that accepts and says nothing, stalls in a body, or trickles:
# a cold read ends with an error in time; stat, ls, df and warm
# reads are fast meanwhile; a blocked reader can be killed at once; umount
# works; after recovery a read is soon right.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir tree
for i in warm cold1 cold2 cold3; do random_file 4000000 tree/$i; done
publish_tree tree mirror silent
start_httpd mirror

for fault in silent 'stall_after&n=1000' 'trickle&n=10'; do
	httpd_control clear
	rm -rf cache
	mount_dataset "$httpd_url#silent" mnt timeout=5s
	cmp tree/warm mnt/warm
	httpd_control "clear&add=$fault"

	failing_read mnt/cold1 &
	reader=$!
	cat mnt/cold2 > /dev/null 2>&1 &
	victim=$!
	sleep 0.5
	kill -KILL $victim
	within 1000 wait_for 60 lib_has_ended $victim
	# Ctrl-C: it is the signal that ends them, not their time-out.
	python3 - <<-'PYTHON'
		import os, signal, subprocess, time
		def heed():
		    signal.signal(signal.SIGINT, signal.SIG_DFL)
		for command in ["cat", "mnt/cold3"], ["cp", "mnt/cold3", "copy"]:
		    with open(os.devnull, "w") as null:
		        child = subprocess.Popen(command, stdout=null, stderr=null,
		                                 preexec_fn=heed)
		    time.sleep(0.3)
		    child.send_signal(signal.SIGINT)
		    assert child.wait(4) == -signal.SIGINT, command
	PYTHON
	for _ in 1 2 3; do
		within 1000 stat mnt/cold3 > /dev/null
		within 1000 ls -l mnt > /dev/null
		within 1000 df mnt > /dev/null
		drop_caches
		within 1000 cmp tree/warm mnt/warm
	done
	wait $reader
	[ "$(cat took)" -le 11000 ] || fail "$fault: it took $(cat took) ms"
	grep -Eq "$EIO|$ETIMEDOUT" said || fail "$fault: $(cat said)"

	httpd_control clear
	within 8000 wait_for 60 cmp -s tree/cold1 mnt/cold1
	httpd_control "clear&add=$fault"
	cat mnt/cold3 > /dev/null 2>&1 &
	reader=$!
	sleep 0.3
	within 10000 umount -l mnt
	kill -KILL $reader 2> /dev/null || true
	wait $reader || true
	wait_for 60 lib_has_ended "$(pgrep -f "$T/mnt" || echo 0)"
done
