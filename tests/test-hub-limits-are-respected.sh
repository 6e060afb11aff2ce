#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Where the Hub says that the limit is used up, nobody of this process asks it
# before the time it names; what needs no Hub goes on.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model
cache=cache=$T/cache

# Three requests a window of four seconds: it waits, and comes through, if its
# readers have the time: on a busy machine some windows pass unused.
hub_set '{"limit_resolvers": 3, "window": 4}'
mount_hub hf://acme/tiny mnt timeout=120s
for file in README.md .gitattributes empty model.safetensors.index.json \
	onnx/sub/deep/config.json onnx/model.onnx config.json; do
	cat "mnt/$file" > /dev/null || fail "$file"
done
refused=$(hub_asked ' 429 ')
[ "$refused" -ge 1 ] || fail "the limit was never met"
# Those that were under way at once may be refused each.
[ "$refused" -le 32 ] || fail "asked $refused times in vain"

# A window that ends too late: an error that says when.
hub_set '{"limit_api": 1, "window": 3000}'
larder ls -o "$cache" hf://acme/tiny@v1.0 > said 2>&1 && fail "listed"
grep -Eq 'limit of requests is used up, again in [0-9]+ s' said ||
	fail "$(cat said)"
cat mnt/onnx/model.onnx mnt/config.json > /dev/null
umount_dataset mnt

# Retry-After alone.
hub_set '{"limit_api": 0, "limit_resolvers": 0}'
hub_faults '{"fault": "status", "route": "info", "status": 429, "times": 1, "headers": {"Retry-After": "1"}}'
larder ls -o "$cache" hf://acme/tiny@feature%2Fx > said || fail "gave up"
grep -qx branch.txt said
