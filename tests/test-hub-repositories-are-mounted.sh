#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# hf://ORG/NAME is a directory: every file with its bytes, few requests, none
# per file for its attributes, and none at all once everything is here.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

mkdir -p tree/sub/deeper tree/odd
random_file 20000003 tree/model.safetensors
random_file 300001 tree/sub/tokenizer.json
random_file 262144 tree/sub/deeper/one.txt
echo '{"a": 1}' > tree/config.json
: > tree/empty
for name in 'name#1' 'why?' 'a b' '100% sure' '%41' é 'a+b' ':x' -rf; do
	echo "this is $name" > "tree/odd/$name"
done
start_hub --repo "model:acme/made=$T/tree" --fixture pile page=7

mount_hub hf://acme/made mnt
[ "$(stat -c %s mnt/model.safetensors)" = 20000003 ] || fail "wrong size"
ls -lR mnt > /dev/null
[ "$(hub_asked 'route=info')" = 1 ] || fail "not one info"
[ "$(hub_asked 'route=tree')" -ge 2 ] || fail "no pages"
[ "$(hub_asked 'route=resolve')" = 0 ] || fail "attributes cost requests"
hub_forget
cmp tree/config.json mnt/config.json
wait_for 20 grep -q 'config.json .*route=resolve' "$hub_log"
[ "$(hub_asked 'config.json')" = 1 ] || fail "$(cat "$hub_log")"

# With the first small file come the others.
wait_for 20 grep -q 'one.txt' "$hub_log"
has_come() {
	[ "$(getfattr --only-values -n user.larder.cached "$1")" = "$2" ]
}
wait_for 20 has_come mnt/odd/%41 12
hub_forget
cat mnt/odd/%41 > /dev/null
[ "$(hub_asked '/odd/%2541')" = 0 ] || fail "not fetched together"

diff -r tree mnt
[ "$(hub_asked 'HEAD')" = 0 ] || fail "asked with HEAD"
[ "$(hub_asked 'resolve/[0-9a-f]{40}/model.safetensors')" = 1 ] ||
	fail "resolved more than once"
[ "$(hub_asked 'resolve/[^/]*/' )" = "$(hub_asked 'resolve/[0-9a-f]{40}/')" ] ||
	fail "asked for a branch"
getfattr --only-values -n user.hub.commit mnt | grep -qE '^[0-9a-f]{40}$'
[ "$(getfattr --only-values -n user.larder.sha256 mnt/model.safetensors)" = \
	"$(sha256sum < tree/model.safetensors | cut -d' ' -f1)" ] ||
	fail "another digest"
wait_for 60 has_state mnt/model.safetensors complete
wait_for 60 has_state mnt/config.json complete

# Again, by another process, and without the Hub.
umount_dataset mnt
hub_forget
mount_hub hf://acme/made mnt
diff -r tree mnt
[ "$(hub_asked)" = 0 ] || fail "asked again: $(cat "$hub_log")"
kill "$hub_pid"
wait_for 60 lib_has_ended "$hub_pid"
larder cat -o "cache=$T/cache" hf://acme/made:config.json | cmp - tree/config.json
umount_dataset mnt
drop_caches
mount_hub hf://acme/made mnt
diff -r tree mnt
umount_dataset mnt
larder ls -o "cache=$T/cache" hf://acme/made@main/sub > said 2>&1 &&
	fail "listed what nobody knows"
grep -q 'connection refused' said || fail "$(cat said)"
