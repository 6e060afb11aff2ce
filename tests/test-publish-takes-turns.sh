#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One writer at a time: a second publisher is told who holds the lease; one
# that was stopped for too long loses it and does not write a head.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"

mkdir tree other
for i in 1 2 3 4; do text_file 10000000 tree/$i; done
echo small > other/file

# Compressing takes far longer than it takes to see the lease.
larder publish -n set --threads 1 --level 19 tree mirror > first.out \
	2> first.err &
first=$!
wait_for 60 test -e mirror/lease
kill -STOP $first
[ -e mirror/lease ] || fail "publishing was over before it could be stopped"
expect_fail "mirror 'mirror' is in use: larder publish on host '.*', process $first, since" \
	larder publish -n other other mirror
expect_fail "is in use: larder publish" larder gc mirror
expect_fail "is in use: larder publish" larder tag mirror other x
larder gc --dry-run mirror > /dev/null || fail "a dry run needs no lease"
larder check mirror > /dev/null || fail "a check needs no lease"

# Not renewed for a minute.
touch -d '-2 minutes' mirror/lease
larder publish -n other other mirror > /dev/null 2>&1 || fail "did not take over"
kill -CONT $first
status=0
wait $first || status=$?
[ $status = 1 ] || fail "the first publisher ended with $status"
grep -q "lost the lease of mirror 'mirror'" first.err ||
	fail "the first publisher said: $(cat first.err)"
[ ! -e mirror/heads/set ] || fail "the first publisher wrote a head"
[ ! -e mirror/lease ] || fail "the lease was left behind"
larder publish -n set other mirror > /dev/null 2>&1
larder check mirror > /dev/null
