#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# On a terminal --help leaves out what few need and says where it is; a pipe, and so
# the completions, get every option, and so does who asks how to mount.
. "${top_srcdir:-.}/tests/lib.sh"
requires python3

on_terminal() {
	python3 -c 'import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$@" < /dev/null
}
on_terminal larder ls --help > short || fail "exit $?"
larder ls --help > full
grep -q -- '--token-file=' short || fail "$(cat short)"
! grep -q -- '--s3-endpoint=' short || fail "$(cat short)"
grep -q 'larder ls --help | less' short || fail "$(cat short)"
! grep -q 'larder ls --help | less' full || fail "more than all is promised"
grep -q -- '--s3-endpoint=' full || fail "$(cat full)"
[ "$(wc -l < short)" -le 32 ] || fail "$(wc -l < short) lines"
# no grep -q on a pipe: pty.spawn waits for ever once nobody reads
on_terminal larder mount --help > mount || fail "exit $?"
! grep -q 'help | less' mount || fail "$(cat mount)"
grep -q -- '--s3-endpoint=' mount || fail "$(cat mount)"
