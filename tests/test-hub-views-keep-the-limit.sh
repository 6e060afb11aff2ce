#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One limit for all repositories of a mount: once the Hub has said that it is
# used up nobody is asked for anything, in whatever view, and that is no "not
# there"; what is open goes on, and a short window is waited for.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl

start_hub --fixture model --fixture pile --fixture coyo
mount_hub hf:// mnt
ls mnt/models/acme/tiny > /dev/null
hub_set '{"limit_api": 2, "window": 3000}'
expect_fail 'Input/output error' cat mnt/models/acme/a mnt/models/acme/b \
	mnt/models/acme/c
[ "$(hub_asked ' 429 ')" = 1 ] || fail "$(cat "$hub_log")"
hub_forget
for name in models/acme/d models/tiny@main models/acme/tiny@v1.0 \
	hub/models--acme--e hub/models--acme--tiny/refs/v1.0 \
	datasets/monology/pile-uncopyrighted spaces/acme/f; do
	expect_fail 'Input/output error' ls "mnt/$name"
done
ls -l mnt/models/acme/tiny mnt/hub/models--acme--tiny/refs > /dev/null
[ "$(hub_asked)" = 0 ] || fail "asked in vain: $(cat "$hub_log")"
umount_dataset mnt

hub_set '{"limit_api": 3, "window": 3}'
mount_hub hf:// mnt
ls mnt/datasets/monology/pile-uncopyrighted \
	mnt/datasets/kakaobrain/coyo-700m mnt/models/acme/tiny@v1.0 > /dev/null
umount_dataset mnt
