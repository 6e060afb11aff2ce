#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# larder refresh: a branch that has moved is followed then and not before, in
# all views at once; what is open stays in its commit, the old commit stays
# beside the new one, and a Hub that cannot say changes nothing.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model --fixture pile
push() {
	hub_control push "{\"repo\": \"model:acme/tiny\", \"files\":
		{\"config.json\": \"$1\"}}" > /dev/null
}
as_other() {
	setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"
}
mount_hub hf:// mnt
mount_hub hf://acme/tiny single
model=mnt/models/acme/tiny
folder=mnt/hub/models--acme--tiny
first=$(cat "$folder/refs/main")
cat mnt/hub/datasets--monology--pile-uncopyrighted/refs/main > /dev/null
before=$(cat "$model/config.json")
exec 3< "$model/tokenizer.json"
head -c 1000 <&3 > begin

push two
sleep 1.1 # names are believed for a second
[ "$(cat "$model/config.json")" = "$before" ] || fail "moved unasked"
[ "$(cat "$folder/refs/main")" = "$first" ] || fail "moved unasked"
hub_forget
chmod 755 "$T"
expect_fail "only that user and root" as_other "$(command -v larder)" \
	refresh mnt
expect_fail 'is a commit' larder refresh "$folder/snapshots/$first"
[ "$(hub_asked)" = 0 ] || fail "$(cat "$hub_log")"
larder refresh mnt > said
grep -qx 'mnt: 1 of 2 datasets changed' said || fail "$(cat said)"
[ "$(hub_asked 'route=info')" = 2 ] && [ "$(hub_asked 'route=tree')" = 1 ]
[ "$(cat "$model/config.json")" = two ] || fail "not followed"
second=$(cat "$folder/refs/main")
[ "$second" != "$first" ] || fail "the ref has not moved"
[ "$(cat "$folder/snapshots/$second/config.json")" = two ]
[ "$(cat "$folder/snapshots/$first/config.json")" = "$before" ]
[ "$(ls "$folder/snapshots" | wc -l)" = 2 ]
[ "$(cat "$folder/blobs/"* | wc -c)" -gt 0 ]
tail -c +1 <&3 | cat begin - | cmp - "$folder/snapshots/$first/tokenizer.json"
exec 3<&-

# Another mount stays until it is asked, and finds the listing here.
[ "$(cat single/config.json)" = "$before" ] || fail "moved by another mount"
hub_forget
larder refresh single/config.json | grep -q '1 of 1 dataset changed'
[ "$(cat single/config.json)" = two ]
[ "$(hub_asked 'route=tree')" = 0 ] || fail "listed twice"
larder refresh "$model" | grep -q ': 0 of 1 dataset changed'

# By source, for the next mount.
push three
larder refresh -o "cache=$T/cache" hf://acme/tiny > said
grep -qx 'hf://acme/tiny: changed' said || fail "$(cat said)"
larder cat -o "cache=$T/cache" hf://acme/tiny:config.json | grep -qx three
[ "$(cat "$model/config.json")" = two ] || fail "moved by a command"

# Nobody answers, or the branch has gone.
hub_control repo '{"repo": "model:acme/tiny", "drop": "refs/heads/main"}' \
	> /dev/null
expect_fail "stays as it was: model 'acme/tiny' has no revision 'main'" \
	larder refresh "$model"
kill "$hub_pid"
wait_for 10 lib_has_ended "$hub_pid"
expect_fail 'stays as it was' larder refresh "$model"
[ "$(cat "$model/config.json")" = two ] || fail "lost what it had"
umount_dataset single
umount_dataset mnt
expect_fail 'not on a larder mount' larder refresh .
