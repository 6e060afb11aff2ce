#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A publish to a bucket that is killed leaves a whole pack and parts of
# another: the next run uses the one and removes the others. Two do not write at
# once, a head that somebody else changed is not overwritten, a server that is
# busy is asked again, and one without conditions is used without.
. "${top_srcdir:-.}/tests/lib.sh"
requires net moto python3

mkdir tree
head -c 70000000 /dev/urandom > tree/a
head -c 12000000 /dev/urandom > tree/b
test_key
start_s3 --load mirrors= --page 1
export AWS_ENDPOINT_URL=$s3_endpoint
export AWS_ACCESS_KEY_ID=test-id AWS_SECRET_ACCESS_KEY=test/secret+key
mirror=s3://mirrors/m
publish=(larder publish -n set -k test.key --threads 1 tree "$mirror")

control() {
	curl -sS "$s3_endpoint/-control?$1"
}

# The second pack is never put together.
busy='status=503&code=SlowDown&times=1000'
control "$busy&match=POST.*uploadId=&skip=1"
"${publish[@]}" > out 2>&1 &
first=$!
wait_for 120 grep -q 'POST.*uploadId=.* 503 ' "$s3_log"
expect_fail "mirror 's3://mirrors/m' is in use: larder publish on host" \
	"${publish[@]}"
kill -KILL $first
wait $first || true
control times=0
! grep -q 'PUT .*/heads/' "$s3_log" || fail "a head too early"

: > "$s3_log"
"${publish[@]}" > out
grep -q '^published set serial 1' out || fail "$(cat out)"
grep -q 'DELETE .*/packs/.*uploadId=.* 204 ' "$s3_log" ||
	fail "parts were left"
known=$(sed -n 's/.*; \([0-9]*\)[.0-9]* MiB known.*/\1/p' out)
[ "${known:-0}" -ge 60 ] || fail "did not go on: $(cat out)"
larder check "$mirror" | grep -q '^ok'

# Busy for a while.
echo 2 > tree/c
control 'status=503&code=SlowDown&times=3&match=PUT'
"${publish[@]}" | grep -q '^published set serial 2'

# Somebody changes the head while we are about to.
echo 3 > tree/c
: > "$s3_log"
control "$busy&match=PUT.*/heads/.*larder"
"${publish[@]}" > out 2>&1 &
first=$!
wait_for 120 grep -q 'PUT .*/heads/set 503 ' "$s3_log"
echo other > bad
s3_curl() { # KEY BODY [OPTION...]
	curl -sS --fail --aws-sigv4 aws:amz:us-east-1:s3 \
		-u "test-id:test/secret+key" -H 'Content-Type: x' \
		-H "x-amz-content-sha256: $(sha256sum < "$2" | cut -c-64)" \
		"${@:3}" "$s3_endpoint/mirrors/$1"
}
s3_put() { # KEY FILE
	s3_curl "$1" "$2" -X PUT --data-binary "@$2"
}
s3_put m/heads/set bad
control times=0
! wait $first || fail "overwrote a head that was not its own"
grep -q 'somebody else has changed it meanwhile: try again' out ||
	fail "$(cat out)"

# A signal ends it while the server is busy, and it leaves the lease.
: > "$s3_log"
control "$busy&match=PUT.*/packs/"
larder publish -n set -k test.key tree s3://mirrors/stopped > out 2>&1 &
first=$!
wait_for 120 grep -q 'PUT .*/packs/.* 503 ' "$s3_log"
kill -TERM $first
! wait $first || fail "not stopped"
grep -q 'stopped by a signal' out || fail "$(cat out)"
tries=$(grep -c 'PUT .*/packs/' "$s3_log")
# Four parts at a time, eight times each if it went on.
[ "$tries" -le 16 ] || fail "asked $tries times"
grep -q 'DELETE .*/lease 204 ' "$s3_log" || fail "the lease is left"
control times=0

# Somebody else has taken the lease: no head is written, and it is left to him.
: > "$s3_log"
control "$busy&match=PUT.*/packs/"
larder publish -n set -k test.key tree s3://mirrors/taken > out 2>&1 &
first=$!
wait_for 120 grep -q 'PUT .*/packs/.* 503 ' "$s3_log"
s3_put taken/lease bad
control times=0
! wait $first || fail "published with another's lease"
grep -q 'lost the lease' out || fail "$(cat out)"
! grep -q 'PUT .*/taken/heads/' "$s3_log" || fail "wrote a head"
[ "$(s3_curl taken/lease /dev/null)" = other ] || fail "another's lease is gone"

# Without conditions.
mirror=s3://mirrors/n
control 'status=501&code=NotImplemented&times=1&match=PUT.*/n/lease'
larder publish -n set -k test.key tree "$mirror" | grep -q '^published'
control times=0

# Without a list of unfinished uploads.
control 'status=501&code=NotImplemented&times=10&match=GET.*uploads='
: > "$s3_log"
larder publish -n set -k test.key tree s3://mirrors/unlisted |
	grep -q '^published'
grep -q 'GET .*uploads=.* 501 ' "$s3_log" || fail "no list was asked for"
