#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# On a terminal one line is redrawn with share, rate, time left and ratios;
# elsewhere nothing is drawn. Ctrl-C stops it: status 1, nothing lost.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires python3

mkdir tree
for i in {0..7}; do
	text_file 3600000 "tree/$i"
done

status=0
python3 "$top_srcdir/tests/pty-run.py" '[1-9] %  ' \
	larder publish -n set --level 19 tree mirror || status=$?
[ $status = 1 ] || fail "an interrupted publish ended with $status: $(cat said)"
grep -q "larder publish: stopped by a signal" said || fail "$(cat said)"
[ ! -e mirror/heads ] || fail "a head after an interrupt"
[ ! -e mirror/lease ] || fail "the lease was left behind"
[ -z "$(find mirror -name '.tmp-*')" ] || fail "temporary files are left"

# What was stored before need not be compressed again, and the share is known
# when all has been read: from nothing, so that compressing lasts.
rm -rf mirror
python3 "$top_srcdir/tests/pty-run.py" '' \
	larder publish -n set --level 19 tree mirror ||
	fail "$(cat said)"
tr '\r' '\n' < said > lines
grep -qE '^ *[0-9]+ %  [0-9.]+ [KMG]iB of [0-9.]+ [KMG]iB  [0-9.]+ [KMG]?i?B/s' lines ||
	fail "no share and rate: $(cat lines)"
grep -qE '  [0-9a-z ]+ left' lines || fail "no time left: $(cat lines)"
grep -qE 'dedup [0-9.]+x   compression [0-9.]+x' lines || fail "no ratios: $(cat lines)"
larder check mirror > /dev/null

rm -rf mirror
larder publish -n set tree mirror > out 2> said
! grep -q $'\r' said || fail "redraws without a terminal"
