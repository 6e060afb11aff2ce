#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror's disk that is full: a clear error, the old head, no temporary
# files; with more room the next run goes on.
. "${top_srcdir:-.}/tests/lib.sh"
requires root

mkdir disk tree
mount -t tmpfs -o size=24m none disk || skip "cannot mount a tmpfs"
head -c 4000000 /dev/urandom > tree/a
larder publish -n set tree disk/mirror > /dev/null 2>&1
head=$(sha256sum < disk/mirror/heads/set)

head -c 40000000 /dev/urandom > tree/b
expect_fail "cannot write to mirror 'disk/mirror': No space left on device" \
	larder publish -n set tree disk/mirror
[ "$(sha256sum < disk/mirror/heads/set)" = "$head" ] || fail "another head"
[ -z "$(find disk/mirror -name '.tmp-*')" ] || fail "temporary files are left"
[ ! -e disk/mirror/lease ] || fail "the lease was left behind"
larder check disk/mirror > check || { cat check; fail "the mirror is bad"; }

# The same past a limit on the size of files, which by default kills.
expect_fail "cannot write to mirror 'limited': File too large" \
	bash -c 'ulimit -f 1000; larder publish -n set tree limited'
[ -z "$(find limited -name '.tmp-*')" ] || fail "temporary files are left"

mount -o remount,size=64m disk
larder publish -n set tree disk/mirror > /dev/null 2>&1 || fail "no second try"
larder check disk/mirror > /dev/null || fail "the mirror is bad at the end"
