#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Publishing an equal tree again: nothing is written, unless the head has
# expired; a head by another key than before is announced; a tag is shown.
. "${top_srcdir:-.}/tests/lib.sh"

mkdir tree
echo x > tree/x
larder keygen a.key > /dev/null
larder keygen b.key > /dev/null
larder publish -n t -k a.key tree mirror > said 2> warned
grep -q '^published t serial 1 ' said || fail "$(cat said)"
[ ! -s warned ] || fail "warned: $(cat warned)"
larder publish -n t -k a.key --tag v1 tree mirror > said
grep -q '^unchanged t serial 1 ' said || fail "$(cat said)"
grep -q '^  tag v1$' said || fail "the tag is not shown: $(cat said)"
larder publish -n t -k b.key tree mirror > said 2> warned
grep -q '^published t serial 2 ' said || fail "$(cat said)"
grep -q 'signed by another key' warned || fail "no warning: $(cat warned)"

larder publish -n t -k b.key --expires 1 tree mirror > /dev/null
sleep 2
expect_fail 'expired' larder ls --key=b.key.pub mirror#t
larder publish -n t -k b.key tree mirror > said
grep -q '^published t serial 4 ' said || fail "left expired: $(cat said)"
larder ls --key=b.key.pub mirror#t | grep -qx x || fail "cannot be read"
