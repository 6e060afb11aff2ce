#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# One process at a time compares a file with its digest. A prefetch that waits
# for another's look at a large file goes on by itself when that one is gone.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 getfattr

# In segments, and mostly a hole; see test-hub-large-files-are-verified.
mkdir tree
random_file 3000001 tree/good.bin
truncate -s 270000000 tree/good.bin
printf 'the end' >> tree/good.bin
start_hub --repo "model:acme/large=$T/tree" lfs=cdn
limits=size=1G,min-free=1M

# Who has read it all dies before it could say that it is right.
ln -sf "$top_builddir/tests/larder-crash" bin/larder
export LARDER_CRASH=seal-checked LARDER_CRASH_LOG=$T/killed
: > killed
mount_hub hf://acme/large mnt $limits
cat mnt/good.bin > /dev/null
was_killed() { [ -s killed ]; }
wait_for 120 was_killed
umount -l mnt
unset LARDER_CRASH

python3 -c '
import fcntl, os, sys, time
for top, _, names in os.walk("cache/blobs"):
    for name in names:
        f = open(os.path.join(top, name), "r+b")
        fcntl.lockf(f, fcntl.LOCK_EX, 1, 1)
        globals()[name] = f
open("held", "w").close()
time.sleep(600)' &
holder=$!
wait_for 30 test -e held
larder prefetch -c larder.conf -o "cache=$T/cache,$limits" hf://acme/large \
	> said 2>&1 &
prefetch=$!
wait_for 60 grep -q 'compared with their digests' said
sleep 1 # its own look meets the other's
kill $holder
timeout 120 tail --pid=$prefetch -f /dev/null || { kill $prefetch; fail "hangs: $(cat said)"; }
wait $prefetch || fail "$(cat said)"
mount_hub hf://acme/large mnt $limits
has_state mnt/good.bin complete || fail "$(state_of mnt/good.bin)"
