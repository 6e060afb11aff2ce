#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# hf:// is a directory of all repositories: one is there when somebody looks for
# it, with one listing however many look and in whatever view, and its files are
# the same files everywhere, with one cached copy. What the Hub lacks or keeps is
# said once and remembered.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model --fixture pile --fixture access --token hf_goodToken
mount_hub hf:// mnt
[ "$(ls mnt)" = "$(printf '%s\n' datasets hub models spaces)" ]
[ -z "$(ls mnt/models mnt/hub | grep -v :)" ] || fail "names from nowhere"
[ "$(hub_asked)" = 0 ] || fail "asked before anybody looked"

# Sixteen look at once.
for i in {1..16}; do
	cat "mnt/models/acme/tiny/config.json" > "said.$i" &
	looking+=($!)
	stat "mnt/hub/models--acme--tiny/snapshots" > /dev/null &
	looking+=($!)
done
for pid in "${looking[@]}"; do
	wait "$pid" || fail "one of many cannot look"
done
[ "$(hub_asked 'route=info')" = 1 ] || fail "$(cat "$hub_log")"
[ "$(hub_asked 'route=tree')" = 1 ] || fail "$(cat "$hub_log")"

# The layout of the client's cache.
folder=mnt/hub/models--acme--tiny
commit=$(cat "$folder/refs/main")
[ "$(stat -c %s "$folder/refs/main")" = 40 ] && [ "${#commit}" = 40 ]
[ "$(ls "$folder/snapshots")" = "$commit" ]
snapshot=$folder/snapshots/$commit
[ "$(readlink "$snapshot/config.json")" = \
	"../../blobs/$(git_blob said.1)" ] || fail "another link"
link=$(readlink "$snapshot/onnx/sub/deep/config.json")
[[ $link = ../../../../../blobs/* ]] || fail "$link"
[ "$(stat -c %s "$snapshot/onnx/sub/deep/config.json")" = "${#link}" ]
[ "$(basename "$(readlink "$snapshot/empty")")" = \
	e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 ]
diff -r "$snapshot" mnt/models/acme/tiny || fail "the views differ"
(cd mnt/models/acme/tiny && find . -type f) | sort > there
(cd "$snapshot" && find . -type l) | sort | diff - there
(cd "$snapshot" && find . -type l -exec readlink -f {} +) | xargs -n1 basename |
	sort -u | diff - <(ls "$folder/blobs") || fail "other blobs"
[ "$(stat -Lc %i "$snapshot/config.json")" = \
	"$(stat -c %i mnt/models/acme/tiny/config.json)" ] || fail "two files"
[ -f "$folder/.no_exist/$commit/none.json" ] || fail "absence is not told"
[ ! -e "$folder/.no_exist/$commit/config.json" ] || fail "absence of what is"

# A commit that is known is not listed again, whatever it is called.
diff -r "mnt/models/acme/tiny@$commit" mnt/models/acme/tiny
[ "$(hub_asked 'route=tree')" = 1 ] || fail "listed again: $(cat "$hub_log")"

# The listing, as the client keeps it.
curl -sS --noproxy '*' "$hub_url/api/models/acme/tiny/tree/$commit?recursive=true" \
	> asked.json
python3 - "$folder/trees/$commit.json" asked.json <<'PY' || fail "another listing"
import json, os, sys
kept = json.load(open(sys.argv[1], encoding="utf-8"))
assert os.stat(sys.argv[1]).st_size == len(open(sys.argv[1], "rb").read())
wanted = {}
for item in json.load(open(sys.argv[2])):
    if item["type"] == "file":
        entry = {"size": item["size"], "blob_id": item["oid"]}
        if "lfs" in item:
            entry.update(lfs_sha256=item["lfs"]["oid"],
                         lfs_size=item["lfs"]["size"])
        wanted[item["path"]] = entry
assert kept == {"format_version": 1, "files": wanted}, kept
PY
expect_fail 'No such file' ls "$folder/trees/${commit//[0-9]/a}.json"
expect_fail 'No such file' ls "$folder/trees/$commit.jso"

# Other revisions.
[ "$(cat mnt/models/acme/tiny@v1.0/config.json)" != "$(cat said.1)" ]
old=$(cat "$folder/refs/v1.0")
[ "$(getfattr --only-values -n user.hub.commit mnt/models/acme/tiny@v1.0)" = \
	"$old" ]
diff -r "$folder/snapshots/$old" mnt/models/acme/tiny@v1.0
[ -s "$folder/refs/refs/pr/1" ]
[ -f "$folder/snapshots/$(cat "$folder/refs/refs/pr/1")/pr.txt" ]
[ -f mnt/models/acme/tiny@refs%2Fpr%2F1/pr.txt ]
[ ! -e "$folder/refs/no" ] && [ ! -e "$folder/refs/no/such" ]
[ -f mnt/models/acme/tiny@feature%2Fx/branch.txt ]
[ -f "$folder/snapshots/$(cat "$folder/refs/feature/x")/branch.txt" ]
[ "$(ls "$folder/refs/feature")" = x ]
expect_fail 'No such file' ls "$folder/refs/feature/y"
[ -z "$(ls "$folder/blobs" | sort | uniq -d)" ] || fail "a blob of two commits twice"
cat mnt/models/tiny@main/config.json | cmp - said.1
[ "$(cat mnt/hub/models--tiny/refs/main)" = "$commit" ] || fail "an old name"
ls mnt/datasets/monology/pile-uncopyrighted/train > /dev/null
[ -s "$(echo mnt/hub/datasets--monology--pile-uncopyrighted/refs/main)" ]
larder status > said.status
grep -q 'models/acme/tiny ' said.status || fail "$(cat said.status)"
! grep -q 'snapshots' said.status || fail "$(cat said.status)"

# What is not there, and what is no name at all.
hub_forget
for i in 1 2 3; do
	expect_fail 'No such file' ls mnt/models/acme/tiny@none
	expect_fail 'Permission denied' ls mnt/models/acme/none
	expect_fail 'Permission denied' ls mnt/hub/models--acme--none
	expect_fail 'Permission denied' ls mnt/models/acme/private
	expect_fail 'No such file' ls "$folder/refs/nothing"
	expect_fail 'No such file' ls "$folder/refs/refs/other"
	expect_fail 'No such file' ls "$folder/snapshots/main"
	expect_fail 'No such file' ls "$folder/blobs/main"
done
why() {
	getfattr --only-values -n user.larder.error "$1"
}
why mnt/models/acme | grep -q "acme/private', or it is private .*token-file"
why mnt/hub | grep -q "acme/none', or it is private .*token-file"
why "$folder/refs" | grep -q "no revision 'nothing'"
expect_fail . why mnt/spaces
# four repositories and revisions, each remembered for ten seconds at least
asked=$(hub_asked)
[ "$asked" -ge 4 ] && [ "$asked" -lt 12 ] || fail "$(cat "$hub_log")"
# Remembered longer than what fails is, also when the kernel has forgotten it.
expect_fail 'No such file' ls mnt/models/acme/tiny@other
hub_forget
sleep 1.2
echo 2 > /proc/sys/vm/drop_caches
expect_fail 'No such file' ls mnt/models/acme/tiny@other
[ "$(hub_asked)" = 0 ] || fail "asked again: $(cat "$hub_log")"

# A branch that is called like a commit is not that commit.
hub_control push "{\"repo\": \"model:acme/tiny\", \"branch\": \"${commit//[0-9]/a}\",
	\"files\": {\"x\": \"y\"}}" > /dev/null
expect_fail 'Input/output error' ls "$folder/snapshots/${commit//[0-9]/a}"

hub_forget
for name in .locks CACHEDIR.TAG version.txt models--a--b--c- files--a--b; do
	expect_fail 'No such file' ls "mnt/hub/$name"
done
for name in .git -x x. a--b 'a b'; do
	for owner in '' acme/; do
		expect_fail 'No such file' ls "mnt/models/$owner$name"
	done
done
expect_fail 'Read-only file system' mkdir mnt/hub/.locks
expect_fail 'Read-only file system' touch "$folder/refs/main"
[ "$(hub_asked)" = 0 ] || fail "asked for nonsense: $(cat "$hub_log")"
umount_dataset mnt
