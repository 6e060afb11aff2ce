#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A prefetch that was killed or interrupted goes on from what is here; Ctrl-C ends it soon. While
# the mirror is away it waits and says why, and ends well when the mirror is back.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires root net nginx python3

size=$((24 << 20))
mkdir tree
random_file $size tree/file
publish_tree tree mirror set
start_nginx mirror
prefetch() {
	larder prefetch -c larder.conf -o cache="$T/cache",key="$T/test.key.pub" "$@"
}
sent() {
	awk '$2 ~ /^\/packs\// { n += $5 } END { print n + 0 }' "$nginx_log"
}
has_sent() {
	[ "$(sent)" -ge "$1" ]
}

# The signal that bash gives its background jobs is ignored: undo that.
start_prefetch() {
	python3 - "$@" > out 2> said <<'PY' &
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
T = os.environ["LARDER_TEST"]
os.execvp("larder", ["larder", "prefetch", "-c", "larder.conf", "-o",
    f"cache={T}/cache,key={T}/test.key.pub"] + sys.argv[1:])
PY
	pid=$!
}

start_prefetch --limit-rate=4M "$nginx_url#set"
wait_for 60 has_sent $((4 << 20))
kill -KILL $pid
wait $pid 2> /dev/null && fail "it was over before it was killed"
[ "$(sent)" -lt $size ] || fail "the rate was not limited"

start_prefetch --limit-rate=4M "$nginx_url#set"
wait_for 60 has_sent $((10 << 20))
kill -INT $pid
status=0
wait $pid || status=$?
[ $status = 1 ] || fail "an interrupt ended it with $status: $(cat said)"
grep -q "stopped; what is here stays" said || fail "$(cat said)"

prefetch --json "$nginx_url#set" > out
python3 - <<'PY'
import json
out = json.load(open("out"))
assert out["result"] == "complete", out
assert out["bytes_at_start"] > 0, out
assert out["wire_bytes"] < out["bytes"], out
PY
[ "$(sent)" -lt $((size * 3 / 2)) ] || fail "fetched $(sent) of $size in all"

# The mirror goes away in the middle.
rm -rf cache
start_prefetch --limit-rate=6M "$nginx_url#set"
before=$(sent)
wait_for 60 has_sent $((before + (2 << 20)))
stop_nginx
wait_for 60 grep -q "stalled .*: http://127.0.0.1.*: connection refused" said
grep -qE "^ *[0-9]+ %  [0-9.]+ MiB of 24.0 MiB  0 of 1 files" said || fail "$(cat said)"
nginx -p "$(dirname "$nginx_log")/" -e error.log -c conf
wait_for 60 test -s "$(dirname "$nginx_log")/nginx.pid"
nginx_pids+=("$(cat "$(dirname "$nginx_log")/nginx.pid")")
wait $pid || fail "$(cat said)"
grep -q "^complete: 24.0 MiB in 1 file " out || fail "$(cat out)"
