#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# larder gc on a bucket removes many objects with one request. What the server
# does not remove is named; what it had no time for is asked for again, alone;
# where it knows no such request, everything is.
. "${top_srcdir:-.}/tests/lib.sh"
requires net moto python3

start_s3 --load mirrors=
export AWS_ENDPOINT_URL=$s3_endpoint
export AWS_ACCESS_KEY_ID=test-id AWS_SECRET_ACCESS_KEY=test/secret+key
mirror='s3://mirrors/sets & more'

control() {
	curl -sS "$s3_endpoint/-control?$1" || fail "control $1"
}

# Versions of which only the last is to stay.
versions() {
	local i
	for i in 1 2 3; do
		rm -rf tree
		mkdir tree
		head -c 300000 /dev/urandom > tree/file
		publish_tree tree "$mirror" set
	done
	: > "$s3_log"
}
collect() {
	larder gc --keep 0 --grace 0 -y -v "$mirror" > collected 2> said
}
asked() {
	grep -c "$1" "$s3_log" || true
}
left() { # objects that a gc would still remove
	larder gc --keep 0 --grace 0 --dry-run -v "$mirror" | grep -c / || true
}

versions
wanted=$(left)
[ "$wanted" -ge 8 ] || fail "too little to remove: $wanted"
: > "$s3_log"
collect || fail "$(cat said)"
[ "$(grep -c / collected)" = "$wanted" ] || fail "named: $(cat collected)"
[ "$(asked 'POST .*delete= 200 ')" = 4 ] && [ "$(asked DELETE)" = 1 ] ||
	fail "the lease alone is one request: $(cat "$s3_log")"
[ "$(left)" = 0 ] || fail "something is left"
larder check "$mirror" | grep -q '^ok'

# Some are refused: each is named, the others of that request are gone, and
# nothing that they need goes after them.
versions
control 'deny=/objects/&code=AccessDenied&times=2'
! collect || fail "objects that stay are no success"
[ "$(grep -c "cannot remove '$mirror/objects/.*': AccessDenied" said)" = 2 ] ||
	fail "who was refused: $(cat said)"
[ "$(grep -c ^objects/ collected)" -ge 1 ] || fail "others: $(cat collected)"
! grep ^packs/ collected || fail "packs went before their objects"
[ "$(asked 'DELETE .*/objects/')" = 0 ] || fail "asked again for nothing"
collect || fail "$(cat said)"
[ "$(left)" = 0 ] || fail "something is left"

# No time for some: once more, alone.
versions
control 'deny=/places/&code=SlowDown&times=1'
collect || fail "$(cat said)"
[ "$(asked 'DELETE .*/places/.* 204 ')" = 1 ] || fail "$(cat "$s3_log")"
[ "$(left)" = 0 ] || fail "something is left"

# Not in the answer at all.
versions
control 'deny=/places/&code=none&times=1'
collect || fail "$(cat said)"
[ "$(left)" = 0 ] || fail "what was not named was taken for removed"

# It knows no such thing, and is not asked twice.
for answer in 'status=501&code=NotImplemented' 'status=405&code=MethodNotAllowed' \
	'status=400&code=MalformedXML'; do
	versions
	control "$answer&times=100&match=POST.*delete="
	collect || fail "$answer: $(cat said)"
	control 'times=0'
	[ "$(asked 'POST .*delete=')" = 1 ] && [ "$(asked 'DELETE .* 204 ')" -ge 8 ] ||
		fail "$answer: $(cat "$s3_log")"
	[ "$(left)" = 0 ] || fail "$answer: something is left"
done
larder check "$mirror" | grep -q '^ok'
