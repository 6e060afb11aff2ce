#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a directory of a snapshot holds never changes, so who lists it again is
# answered by the kernel: also while larder is stopped. A directory that stands
# for what is current is not kept.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3

mkdir -p tree/sub mnt
touch tree/sub/{1..100}
publish_tree tree mirror kept
larder mount -f -c larder.conf -o "cache=$T/cache,key=$T/test.key.pub" \
	"mirror#kept" mnt > mount.out 2> mount.err &
pid=$!
wait_for 60 mountpoint -q mnt

# It was listed; opened once more, it is listed while nobody answers.
cat > again.py <<'PY'
import os, signal, sys, time
path, pid = sys.argv[1], int(sys.argv[2])
before = os.listdir(path)
fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
os.kill(pid, signal.SIGSTOP)
states = [f"/proc/{pid}/task/{task}/stat" for task in os.listdir(f"/proc/{pid}/task")]
while any(open(path).read().split(") ")[1][0] != "T" for path in states):
    time.sleep(0.01)
assert os.listdir(fd) == before
PY
kept() { # DIR SECONDS
	local status=0
	timeout -s KILL "$2" python3 again.py "$1" $pid 2> said || status=$?
	kill -CONT $pid
	case $status in
	0) return 0 ;;
	137) return 1 ;;
	*) fail "listed wrongly: $(cat said)" ;;
	esac
}
kept mnt/sub 60 || fail "the listing was asked for again"
! kept mnt 3 || fail "what is current was not asked for"
umount_dataset mnt
