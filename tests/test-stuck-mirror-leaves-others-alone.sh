#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
#
# 500 readers that wait for a silent mirror are killed within a second each
# and leave another dataset of the same mount alone: warm and cold reads, listings
# and df go on. A reader that is not killed fails after the time-out, not with ENOENT.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root net python3
[ -x "$top_builddir/tests/httpd" ] || skip "tests/httpd is not built"

mkdir stuck fine mnt
for i in $(seq 500); do head -c 300000 /dev/urandom > stuck/$i; done
head -c 20000000 /dev/urandom > fine/big
head -c 20000000 /dev/urandom > fine/cold
publish_tree stuck stuck.mirror stuck
publish_tree fine fine.mirror fine
start_httpd stuck.mirror
cat > larder.conf <<CONF
[larder]
cache = $T/cache
key = $T/test.key.pub
timeout = 20s
[stuck]
mirror = $httpd_url
[fine]
mirror = $T/fine.mirror
CONF
larder mount -c larder.conf mnt
[ "$(ls mnt/stuck | wc -l)" = 500 ]
cmp fine/big mnt/fine/big
curl -sf "$httpd_url/_control?add=silent&path=/packs/*" > /dev/null ||
	fail "the server takes no rule"

pids=()
for i in $(seq 500); do
	cat "mnt/stuck/$i" > /dev/null 2>&1 &
	pids+=($!)
done
sleep 1
dd if=mnt/stuck/499 iflag=direct bs=4096 count=1 of=/dev/null 2> /dev/null &
direct=$!
sleep 0.3
drop_caches
start=$SECONDS
cmp fine/big mnt/fine/big
cmp fine/cold mnt/fine/cold
ls -lR mnt > /dev/null
df mnt/stuck mnt/fine > /dev/null
stat mnt/stuck/* > /dev/null
[ $((SECONDS - start)) -le 10 ] || fail "slow beside stuck readers"

cat > kill.py <<'PY'
import os, signal, sys, time
pids = [int(p) for p in sys.argv[1:]]
start = time.monotonic()
for pid in pids:
    os.kill(pid, signal.SIGKILL)
def state(pid):
    try:
        return open('/proc/%d/stat' % pid).read().rsplit(')', 1)[1].split()[0]
    except OSError:
        return 'X'
while any(state(pid) not in 'ZX' for pid in pids):
    assert time.monotonic() - start < 5, 'killed readers stay'
    time.sleep(0.02)
PY
python3 kill.py "$direct" "${pids[@]:0:499}"
wait "$direct" "${pids[@]:0:499}" 2> /dev/null || true
# the last one is left to its time-out
status=0
wait "${pids[499]}" || status=$?
[ $status = 1 ] || fail "a waiting reader ended with $status"
expect_fail "timed out|Input/output error" cat mnt/stuck/500
[ "$(stat -c %s mnt/stuck/500)" = 300000 ]

curl -sf "$httpd_url/_control?clear" > /dev/null
wait_for 60 cmp -s stuck/500 mnt/stuck/500
larder umount mnt
