#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# On a terminal larder prefetch redraws one line: the share of the bytes, files, rate, time left and where
# the bytes come from. The next run's bar starts at what is here. Ctrl-C ends it with status 1.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires root net nginx python3

mkdir tree
random_file $((12 << 20)) tree/a
random_file $((4 << 20)) tree/b
publish_tree tree mirror set
start_nginx mirror

prefetch() {
	local pattern=$1
	shift
	python3 "$top_srcdir/tests/pty-run.py" "$pattern" larder prefetch -c larder.conf \
		-o cache="$T/cache",key="$T/test.key.pub" "$@" "$nginx_url#set"
}

status=0
prefetch ' [2-6][0-9] %  [^\r]* left  127\.0\.0\.1:[0-9]+ 100 %' --limit-rate=3M || status=$?
[ $status = 1 ] || fail "an interrupt ended it with $status: $(cat said)"
tr '\r' '\n' < said > lines
grep -qE '^ *[0-9]+ %  [0-9.]+ MiB of 16.0 MiB  [01] of 2 files  [0-9.]+ [KM]iB/s  [0-9a-z ]+ left  127\.0\.0\.1:[0-9]+ 100 %' lines ||
	fail "no such line: $(cat lines)"
grep -q "stopped; what is here stays" lines || fail "$(cat lines)"

prefetch '' --limit-rate=6M || fail "$(cat said)"
tr '\r' '\n' < said > lines
first=$(grep -oE '^ *[0-9]+ %  [^ ]+ MiB' lines | grep -v '^  0 %' | head -n 1)
[ "$(sed 's/ %.*//' <<< "$first")" -ge 10 ] || fail "the bar starts at '$first'"
grep -q "complete: 16.0 MiB in 2 files" lines || fail "$(cat lines)"
