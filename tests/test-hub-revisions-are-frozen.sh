#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A branch that moves moves nobody who has it mounted: all
# requests name the commit, files of two commits never meet, and only where
# it was asked for is the branch looked at again. A commit that is gone is an
# error, and what is here stays.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model
push() {
	hub_control push "{\"repo\": \"model:acme/tiny\", \"files\":
		{\"config.json\": \"$1\", \"model-00001-of-00002.safetensors\":
		{\"size\": 3361336, \"seed\": \"$1\"}}}" > /dev/null
}
commit_of() {
	getfattr --only-values -n user.hub.commit "$1"
}
wanted=$(curl -sSL "$hub_url/acme/tiny/resolve/main/model-00001-of-00002.safetensors" | sha256sum)

mount_hub hf://acme/tiny mnt
first=$(commit_of mnt)
exec 3< mnt/model-00001-of-00002.safetensors
head -c 100000 <&3 > begin
hub_forget
push two
tail -c +1 <&3 | cat begin - | sha256sum | cmp - <(echo "$wanted") ||
	fail "an open file has changed"
grep -q '"v": 2' mnt/config.json || fail "another commit's file"
exec 3<&-
umount_dataset mnt
mount_hub hf://acme/tiny mnt
[ "$(commit_of mnt)" = "$first" ] || fail "another mount, another commit"
umount_dataset mnt
[ "$(hub_asked 'route=(info|tree)')" = 0 ] || fail "asked again"
[ "$(hub_asked 'resolve/')" = "$(hub_asked "resolve/$first/")" ] ||
	fail "asked for something else than the commit"

# refresh says: look again.
mount_hub hf://acme/tiny mnt refresh=500ms
wait_for 30 grep -qx two mnt/config.json
push three
wait_for 30 grep -qx three mnt/config.json
third=$(commit_of mnt)
hub_control repo "{\"repo\": \"model:acme/tiny\", \"drop\": \"refs/heads/main\"}" > /dev/null
hub_forget
wait_for 30 grep -q 'route=info' "$hub_log"
[ "$(cat mnt/config.json)" = three ] || fail "lost what it had"
umount_dataset mnt
mount_hub hf://acme/tiny mnt
[ "$(commit_of mnt)" = "$third" ] || fail "not the last one seen"

# The commit is gone: what is here is read, what is not is an error.
hub_control repo "{\"repo\": \"model:acme/tiny\", \"vanish\": \"$third\"}" > /dev/null
[ "$(cat mnt/config.json)" = three ]
expect_fail 'Input/output error' cat mnt/tokenizer.json
ls -l mnt/tokenizer.json > /dev/null
umount_dataset mnt
expect_fail "no revision 'v9'" larder ls -o "cache=$T/cache" hf://acme/tiny@v9
