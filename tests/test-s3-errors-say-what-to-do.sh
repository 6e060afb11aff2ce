#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What S3 refuses is named with what to do: keys, rights, buckets, regions,
# clocks, tokens. A secret is never shown, an unknown bucket is no empty mirror,
# and a server that is busy is asked again.
. "${top_srcdir:-.}/tests/lib.sh"
requires net moto python3

mkdir tree
echo hello > tree/file
publish_tree tree mirror set
start_s3 --load mirrors=mirror --keys other-id:other/secret:token \
	--region eu-north-1
source=s3://mirrors#set:file
export AWS_ENDPOINT_URL=$s3_endpoint AWS_REGION=eu-north-1

control() {
	curl -sS "$s3_endpoint/-control?$1"
}

# says PATTERN ARGUMENT...: without a cache that knows the answer
says() {
	rm -rf cache
	expect_fail "$1" larder cat -o "key=test.key.pub,cache=cache,timeout=2s" \
		"${@:2}"
	larder cat -o "key=test.key.pub,cache=cache,timeout=2s" "${@:2}" \
		> said 2>&1 || true
	! grep -q '[/-]secret' said || fail "a secret is shown: $(cat said)"
}

with_keys() {
	export AWS_ACCESS_KEY_ID=$1 AWS_SECRET_ACCESS_KEY=$2
	export AWS_SESSION_TOKEN=${3-}
}

says 'AccessDenied without keys: give s3-credentials, or AWS_ACCESS_KEY_ID' \
	"$source"
with_keys no-such-id a/secret
says "InvalidAccessKeyId: the server does not know key id 'no-such-id'" \
	"$source"
with_keys test-id wrong/secret
says "SignatureDoesNotMatch: the secret key is not that of key id 'test-id'" \
	"$source"
with_keys other-id other/secret old-token
says "InvalidToken: renew the session token of key id 'other-id'" "$source"

with_keys test-id test/secret+key
[ "$(larder cat -o key=test.key.pub,cache=cache "$source")" = hello ]
says "NoSuchBucket: there is no bucket 'elsewhere' here" s3://elsewhere#set:file
says 'HTTP 404|not found|[Nn]o such|no dataset' s3://mirrors#other:file
says "'mirrors' is in region 'eu-north-1', not 'us-east-1': give s3-region=eu-north-1" \
	--s3-region=us-east-1 "$source"
control skew=1000
says "RequestTimeTooSkewed: this machine's clock is wrong" "$source"
control skew=0
control 'status=301&code=PermanentRedirect&times=100'
says "HTTP 301: bucket 'mirrors' is elsewhere: check s3-region" "$source"
control 'status=403&code=AccessDenied&times=100'
says "AccessDenied for key id 'test-id': check its rights to bucket 'mirrors'" \
	"$source"
control 'status=503&code=SlowDown&times=1000'
says 'HTTP 503 SlowDown' "$source"
control 'status=503&code=SlowDown&times=3'
rm -rf cache
[ "$(larder cat -o key=test.key.pub,cache=cache "$source")" = hello ] ||
	fail "gave up a server that was busy"

says "credentials '.*/none-here': No such file" \
	--s3-credentials=none-here "$source"
s3_keys keys
says "credentials '.*/keys': has no profile \[work\]" \
	--s3-credentials=keys --s3-profile=work "$source"
says 'keys do not belong into an s3:// URL' s3://id:a-secret@mirrors#set:file
says "endpoint of S3" --s3-endpoint=ftp://h "$source"
says "'Up' is no region" --s3-region=Up "$source"
says 'no bucket in the URL' s3:///set#set:file
# Not of S3: a page of somebody else's is no "absent".
start_httpd tree
AWS_ENDPOINT_URL=$httpd_url says 'HTTP 404, but not of S3: check the endpoint' \
	"$source"
