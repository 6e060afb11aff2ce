#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror whose packets are lost: connections are never answered.
# A cold read ends with an error in time, at once while that is known; warm
# reads, stat and ls are fast meanwhile; a second mirror serves after a pause.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3 getfattr

mkdir tree
for i in warm cold1 cold2 cold3; do random_file 3000000 tree/$i; done
publish_tree tree mirror lost
start_httpd mirror
lost_url=$httpd_url
mount_dataset "$lost_url#lost" mnt timeout=6s
cmp tree/warm mnt/warm
kill "$httpd_pid"
wait_for 60 lib_has_ended "$httpd_pid"

# A full queue of connections that nobody accepts: further SYNs are dropped.
python3 - "${lost_url##*:}" <<'PYTHON' &
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen(0)
held = []
for i in range(4):
    c = socket.socket()
    c.setblocking(False)
    c.connect_ex(s.getsockname())
    held.append(c)
open("full", "w").close()
time.sleep(600)
PYTHON
wait_for 60 test -e full

failing_read mnt/cold1 &
reader=$!
sleep 0.5
within 1000 stat mnt/cold2 > /dev/null
within 1000 ls -l mnt > /dev/null
drop_caches
within 1000 cmp tree/warm mnt/warm
wait $reader
[ "$(cat took)" -le 13000 ] || fail "it took $(cat took) ms"
grep -Eq "$EIO|$ETIMEDOUT" said || fail "$(cat said)"
larder_error mnt/cold1 | grep -qF "${lost_url#http://}" ||
	fail "the error is '$(larder_error mnt/cold1)'"

start_httpd mirror
printf '%s\n' "cache = $T/cache" "key = $T/test.key.pub" '[lost]' \
	"mirror = $lost_url" "mirror = $httpd_url" > two.conf
mkdir two
within 15000 larder mount -c two.conf lost two > /dev/null
within 15000 cmp tree/cold2 two/cold2
within 2000 cmp tree/cold3 two/cold3
