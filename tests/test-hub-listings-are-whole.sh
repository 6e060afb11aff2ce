#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A listing is all of a repository or an error: pages that fail, break off or
# are no listing show nothing, names that no tree has are refused, sizes that
# lie read as errors and never as short files.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model --fixture openwebtext page=10
cache=cache=$T/cache
look() {
	rm -rf cache
	larder ls -R -o "$cache,timeout=3s" "$@" hf://acme/tiny
}
look > whole
[ "$(grep -c . whole)" = 27 ] || fail "$(cat whole)"

# A page that comes after all.
hub_faults '{"fault": "status", "route": "tree", "status": 503, "skip": 1, "times": 1}'
look | cmp - whole
hub_faults '{"fault": "cut", "route": "tree", "skip": 2, "times": 1}'
look | cmp - whole
# Pages that never do, or are something else.
for fault in '"fault": "status", "status": 500' '"fault": "cut"' '"fault": "page"' \
	'"fault": "short"' '"fault": "reset"'; do
	hub_faults "{$fault, \"route\": \"tree\", \"skip\": 1}"
	! look > said 2>&1 || fail "$fault: $(cat said)"
	! grep -q '^README' said || fail "$fault: showed a part"
done
hub_faults '{"fault": "page", "route": "info"}'
expect_fail 'a page of HTML instead' look

entry() {
	echo "{\"fault\": \"entries\", \"route\": \"tree\", \"entries\": [{\"type\":
		\"file\", \"oid\": \"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\",
		\"size\": 0, $1}]}"
}
long=$(printf 'x%.0s' {1..256})
for path in ../x a/../b /x a//b . '' "$long" 'nul\u0000' a/; do
	hub_faults "$(entry "\"path\": \"$path\"")"
	! look > said 2>&1 || fail "took '$path'"
	grep -Eq 'no tree has|no JSON' said || fail "'$path': $(cat said)"
done
for wrong in '"path": "n", "size": -1' '"path": "n", "size": "4"' \
	'"path": "n", "size": 1e30' '"path": "n", "oid": "zz"' \
	'"path": "README.md"' '"path": "odd"' '"path": "README.md/x"'; do
	hub_faults "$(entry "$wrong")"
	! look > said 2>&1 || fail "took $wrong"
	! grep -q '^README' said || fail "$wrong: showed something"
done

# What the Hub does not say what it is can be seen, not read.
hub_faults "$(entry '"path": "submodule", "type": "unknown"')"
look > said
grep -qx submodule said || fail "hidden"
expect_fail 'does not say' larder cat -o "$cache" hf://acme/tiny:submodule
mount_hub hf://acme/tiny mnt
expect_fail 'Input/output error' cat mnt/submodule
umount_dataset mnt

# Sizes that lie.
for add in 1 -1; do
	hub_faults "{\"fault\": \"sizes\", \"route\": \"tree\", \"add\": $add}"
	rm -rf cache
	for file in onnx/model.onnx config.json; do
		! larder cat -o "$cache,timeout=5s" "hf://acme/tiny:$file" \
			> out 2> said || fail "$file by $add is no error"
	done
done

# Sub-directories and revisions of their own.
hub_faults
larder ls -R -o "$cache" hf://acme/tiny@v1.0/onnx > said
printf '%s\n' model.onnx sub sub/deep sub/deep/config.json | cmp - said
larder ls -o "$cache" \
	hf://datasets/Skylion007/openwebtext@refs/convert/parquet/plain_text/partial-train \
	> said
[ "$(wc -l < said)" = 10 ] || fail "$(cat said)"
