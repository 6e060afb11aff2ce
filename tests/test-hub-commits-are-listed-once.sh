#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A commit is listed once by a mount, though it is opened under several names while its
# listing is on the way; a listing that fails is tried by the others.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl

start_hub --fixture model
look_by_all_names() {
	local pids=() name
	for name in tiny tiny@main "tiny@$commit"; do
		cat "mnt/models/acme/$name/config.json" > "said.$name" &
		pids+=($!)
	done
	for name in "${pids[@]}"; do
		wait "$name" || fail "cannot look"
	done
	cmp said.tiny said.tiny@main
	cmp said.tiny "said.tiny@$commit"
}
commit=$(curl -sS --noproxy '*' "$hub_url/api/models/acme/tiny" |
	python3 -c 'import json, sys; print(json.load(sys.stdin)["sha"])')

hub_faults '{"fault": "start", "route": "tree", "seconds": 3}'
mount_hub hf:// mnt
hub_forget
look_by_all_names
[ "$(hub_asked 'route=info')" = 3 ] || fail "$(cat "$hub_log")"
[ "$(hub_asked 'route=tree')" = 1 ] || fail "listed twice: $(cat "$hub_log")"
umount_dataset mnt

# The first of them fails for good, the next one lists.
rm -r cache
hub_faults '{"fault": "start", "route": "tree", "seconds": 3, "times": 1}' \
	'{"fault": "status", "route": "tree", "status": 403, "times": 1}'
mount_hub hf:// mnt
hub_forget
cat mnt/models/acme/tiny/config.json > /dev/null 2>&1 &
one=$!
cat mnt/models/acme/tiny@main/config.json > /dev/null 2>&1 &
other=$!
failed=0
wait $one || failed=$((failed + 1))
wait $other || failed=$((failed + 1))
[ "$failed" -le 1 ] || fail "one failure for all: $(cat "$hub_log")"
[ "$(hub_asked 'route=tree')" = 2 ] || fail "$(cat "$hub_log")"
umount_dataset mnt
