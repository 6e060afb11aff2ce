#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror is made in a bucket and kept there: publish (large packs in parts,
# the head last), log, tag, rollback, check and gc, whose results are those of a
# directory. Lists come in pages. A bucket that is no mirror is left alone.
. "${top_srcdir:-.}/tests/lib.sh"
requires net moto python3

python3 "$top_srcdir/tests/make-tree.py" --seed 11 --entries 120 tree
head -c 20000000 /dev/urandom > tree/large
test_key
mkdir other
echo mine > other/notes
start_s3 --load mirrors= --load taken=other --page 3
export AWS_ENDPOINT_URL=$s3_endpoint
export AWS_ACCESS_KEY_ID=test-id AWS_SECRET_ACCESS_KEY=test/secret+key
mirror='s3://mirrors/sets of/a+b'

larder publish -n set/a -k test.key tree "$mirror" > first
larder publish -n set/a -k test.key tree directory > same
[ "$(head -n 1 first)" = "$(head -n 1 same)" ] ||
	fail "another snapshot than in a directory"
! grep ' 40[0-35-9] ' "$s3_log" || fail "refused"
parts=$(grep -c 'PUT .*/packs/.*partNumber=.* 200' "$s3_log") || true
[ "$parts" -ge 3 ] || fail "no parts: $parts"
# Everything that is stored is there before the head.
awk '/^PUT/ && !/\/lease / { last = $2 } END { print last }' "$s3_log" > last
grep -q '/heads/set/a$' last || fail "last was $(cat last)"
larder cat -o key=test.key.pub,cache=cache "$mirror#set/a:large" |
	cmp - tree/large

# As in a directory afterwards.
: > "$s3_log"
larder publish -n set/a -k test.key tree "$mirror" | grep -q '^unchanged set/a'
! grep 'PUT .*packs' "$s3_log" || fail "stored again"
echo new > tree/new
larder publish -n set/a -k test.key --tag v2 tree "$mirror" > second
grep -q 'serial 2' second
larder rollback -k test.key "$mirror" set/a 1 | grep -q 'serial 3'
larder tag -k test.key --serial 1 "$mirror" set/a old
larder tag --delete "$mirror" set/a old
expect_fail "'set/a' has no tag 'old'" larder tag --delete "$mirror" set/a old
larder log "$mirror" > log
[ "$(grep -c sha256: log)" -ge 3 ] || fail "log: $(cat log)"
larder check "$mirror" > checked || fail "$(cat checked)"
grep -q '^ok' checked
larder cat -o key=test.key.pub,cache=cache2 "$mirror#set/a@v2:new" > got
cmp got tree/new

# What no head reaches goes; the rest stays.
rm tree/large
larder publish -n set/a -k test.key tree "$mirror" > third
larder tag --delete "$mirror" set/a v2
larder gc --keep 0 --grace 0 -y "$mirror" > collected
grep -q 'POST .*delete= 200 ' "$s3_log" ||
	fail "nothing removed: $(cat collected)"
larder check "$mirror" | grep -q '^ok'

# Damage is named.
pack=$(grep -o 'PUT /mirrors/[^ ?]*/packs/[^ ?]*' "$s3_log" | tail -n 1)
pack=${pack#PUT }
printf 'no pack' > bad
curl -sS --fail --aws-sigv4 aws:amz:us-east-1:s3 -u "test-id:test/secret+key" \
	-H "x-amz-content-sha256: $(sha256sum < bad | cut -c-64)" \
	-H 'Content-Type: x' -X PUT --data-binary @bad "$s3_endpoint$pack"
expect_fail "packs/${pack##*/packs/}" larder check "$mirror"

expect_fail "no mirror .* and is not empty" \
	larder publish -n set -k test.key tree s3://taken
expect_fail "NoSuchBucket: there is no bucket 'nowhere' here" \
	larder publish -n set -k test.key tree s3://nowhere/m
AWS_SECRET_ACCESS_KEY=no/secret expect_fail \
	"cannot read 's3://mirrors/m/larder-mirror': SignatureDoesNotMatch" \
	larder publish -n set -k test.key tree s3://mirrors/m
expect_fail "is no mirror: it is empty" larder log s3://mirrors/m
expect_fail "temporary file in '/nonexistent'" env TMPDIR=/nonexistent \
	larder publish -n set -k test.key tree s3://mirrors/m
