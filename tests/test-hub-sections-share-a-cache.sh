#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Repositories as sections of the configuration, beside one that is broken;
# two mounts of one cache fetch each byte about once; prefetch, status, pin and
# verify know them like any other dataset.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

mkdir -p tree/sub
random_file 12000001 tree/model.safetensors
random_file 70001 tree/sub/tokenizer.json
echo '{}' > tree/config.json
start_hub --repo "model:acme/made=$T/tree" --fixture access --token hf_good
echo hf_good > token
cat > larder.conf <<CONF
[larder]
cache = $T/cache
timeout = 20s

[models/made]
source = hf://acme/made

[models/private]
source = hf://acme/private
token-file = $T/token

[models/gone]
source = hf://acme/gone
CONF
mkdir a b
pids=()
larder mount -c larder.conf a
larder mount -c larder.conf b
for side in a b; do
	(
		cmp tree/model.safetensors $side/models/made/model.safetensors &&
			cmp tree/sub/tokenizer.json \
				$side/models/made/sub/tokenizer.json
	) &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid" || fail "a mount read something else"
done
sent=$(awk '$1 == "cdn" { sum += $5 } END { print sum + 0 }' "$hub_log")
[ "$sent" -lt 16000000 ] || fail "$sent bytes for 12000001"
[ "$(cat a/models/private/config.json)" = '{"who": "private"}' ]
expect_fail 'Permission denied|No such file' cat a/models/gone/config.json
larder status -c larder.conf > said || true
grep -q 'models/made' said || fail "$(cat said)"
larder umount a
larder umount b

rm -rf cache
larder prefetch -c larder.conf models/made > said 2>&1 || fail "$(cat said)"
hub_forget
mkdir c
larder mount -c larder.conf c
diff -r tree c/models/made
[ "$(hub_asked 'acme/made')" = 0 ] || fail "asked: $(cat "$hub_log")"
wait_for 60 has_state c/models/made/model.safetensors complete
larder pin -c larder.conf models/made '*.safetensors' > said 2>&1 ||
	fail "$(cat said)"
larder unpin -c larder.conf models/made '*.safetensors' > said 2>&1 ||
	fail "$(cat said)"
larder umount c
larder verify -c larder.conf > said 2>&1 || fail "$(cat said)"
printf '[x]\nsource = hf://acme/made\nmirror = /m\n' > both.conf
expect_fail 'both a source and a mirror' larder ls -c both.conf -o "cache=$T/cache" x
printf '[x]\nsource = acme/made\n' > none.conf
expect_fail 'write hf://ORG/NAME' larder ls -c none.conf -o "cache=$T/cache" x
