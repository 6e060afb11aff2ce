#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A branch or tag with a slash in its name is found in refs/ though nobody ever
# opened it: the Hub's list of them is asked for once, when a name is looked for
# that it does not know, and kept. Names without a slash cost nothing more, and
# whether a branch is there is the Hub's word.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model
push() {
	hub_control push "{\"repo\": \"model:acme/tiny\", \"branch\": \"$1\",
		\"files\": {\"new.txt\": \"$1\"}}" |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["commit"])'
}
deep=$(push team/a/b)
refs=mnt/hub/models--acme--tiny/refs
why() {
	getfattr --only-values -n user.larder.error "$1"
}

# Ordinary opens.
mount_hub hf:// mnt
cat "$refs/main" "$refs/v1.0" "$refs/refs/pr/1" > /dev/null
ls "$refs" "$refs/refs/pr" mnt/models/acme/tiny > /dev/null
[ "$(hub_asked route=refs)" = 0 ] || fail "$(cat "$hub_log")"

# Many look at once. Names that are not there are not reason enough to ask again.
began=$SECONDS
for i in {1..8}; do
	cat "$refs/feature/x" > "said.$i" &
	looking+=($!)
	cat "$refs/team/a/b" > "deep.$i" &
	looking+=($!)
done
for pid in "${looking[@]}"; do
	wait "$pid" || fail "one of many cannot look"
done
[ "$(cat deep.8)" = "$deep" ] || fail "$(cat deep.8)"
[ "$(cat "mnt/hub/models--acme--tiny/snapshots/$deep/new.txt")" = team/a/b ]
[ "$(hub_asked route=refs)" = 1 ] || fail "$(cat "$hub_log")"
expect_fail 'No such file' stat "$refs/none" "$refs/feature/none" "$refs/team/b"
why "$refs" | grep -q "no revision 'none'"
[ "$(hub_asked route=refs)" = 1 ] || [ $((SECONDS - began)) -ge 30 ] ||
	fail "asked again: $(cat "$hub_log")"
hub_forget
expect_fail 'No such file' stat "$refs/a..b" "$refs/a~" "$refs/-"
[ "$(ls "$refs/team")" = a ] && [ "$(cat "$refs/team/a/b")" = "$deep" ]
[ "$(hub_asked)" = 0 ] || fail "asked for nonsense: $(cat "$hub_log")"
umount_dataset mnt

# The node alone, and with the Hub stopped.
mount_hub hf:// mnt
[ "$(cat "$refs/feature/x")" = "$(cat said.1)" ]
[ "$(hub_asked)" = 0 ] || fail "asked again: $(cat "$hub_log")"
umount_dataset mnt
kill -STOP "$hub_pid"
HF_HUB_OFFLINE=1 mount_hub hf:// mnt
[ "$(cat "$refs/feature/x")" = "$(cat said.1)" ]
[ "$(cat "$refs/team/a/b")" = "$deep" ]
expect_fail 'Input/output error' ls "$refs/none"
umount_dataset mnt
kill -CONT "$hub_pid"

# What is new is found by a list that is new.
new=$(push later/on)
mount_hub hf:// mnt
[ "$(cat "$refs/later/on")" = "$new" ]
umount_dataset mnt

# Without a list nobody says that a name is not there; a server that has none
# says so.
find cache/heads -type f -exec grep -l '^larder-refs 1$' {} + > lists
[ "$(wc -l < lists)" = 1 ]
rm "$(cat lists)"
for damage in '"page"' '"short"' '"status", "status": 500'; do
	hub_faults "{\"route\": \"refs\", \"fault\": $damage}"
	mount_hub hf:// mnt
	expect_fail 'Input/output error' ls "$refs/feature"
	[ "$(cat "$refs/v1.0")" ] || fail "no tag"
	hub_faults
	wait_for 60 cat "$refs/feature/x" > said 2> /dev/null
	cmp said said.1 || fail "after $damage"
	umount_dataset mnt
	rm "$(cat lists)"
done
hub_faults '{"route": "refs", "fault": "status", "status": 404}'
mount_hub hf:// mnt
expect_fail 'No such file' ls "$refs/feature"
umount_dataset mnt

# What lies there instead is no list.
echo 'larder-refs 2' > "$(cat lists)"
echo 'feature/x' >> "$(cat lists)"
mount_hub hf:// mnt
expect_fail 'No such file' ls "$refs/feature"
umount_dataset mnt
