#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror in a bucket: keys from the environment, a file, a profile, with a
# session token, or none; a prefix with odd bytes; new keys in the file are
# used without a restart. The server checks every signature.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root net moto nginx python3

python3 "$top_srcdir/tests/make-tree.py" --seed 7 --entries 60 tree
head -c 300000 /dev/urandom > tree/first
head -c 300000 /dev/urandom > tree/second
odd='a b+c%25/é&=~!'
mkdir -p "load/$(dirname "$odd")"
publish_tree tree "load/$odd" images/set-1.a
cp -r "load/$odd" public
start_s3 --load mirrors=load --load open-to-all=public --public open-to-all \
	--keys other-id:other:token+1/2=
source="s3://mirrors/$odd#images/set-1.a"

# reads CACHE OPTION...: through a cache of its own
reads() {
	larder cat -o "key=test.key.pub,cache=$T/$1" "${@:2}" > got &&
		cmp got tree/first || fail "cannot read with ${*:2}"
}

export AWS_ENDPOINT_URL=$s3_endpoint
AWS_ACCESS_KEY_ID=test-id AWS_SECRET_ACCESS_KEY=test/secret+key \
	mount_dataset "$source" mnt
python3 "$top_srcdir/tests/compare-trees.py" tree mnt
umount_dataset mnt
grep -q ' 206 test-id bytes=' "$s3_log" || fail "no signed range"
! grep ' 40[0-9] ' "$s3_log" || fail "refused"

# From a file that was named, or where AWS keeps it.
s3_keys keys
AWS_ACCESS_KEY_ID=no AWS_SECRET_ACCESS_KEY=no \
	reads cache2 --s3-credentials=keys "$source:first"
mkdir home/.aws
s3_keys home/.aws/credentials
reads cache3 "$source:first"

# Of a profile, with a token, in a section of the configuration.
printf '[work]\naws_access_key_id=other-id\naws_secret_access_key=other\n' \
	>> keys
printf 'aws_session_token = token+1/2=\nregion = elsewhere-1\n' >> keys
cat > sections.conf <<-CONF
	s3-endpoint = $s3_endpoint
	s3-credentials = /nonexistent
	[images]
	mirror = s3://mirrors/$odd
	name = images/set-1.a
	s3-credentials = $T/keys
	s3-profile = work
CONF
unset AWS_ENDPOINT_URL
reads cache4 -c sections.conf images:first
grep -q ' 206 other-id ' "$s3_log" || fail "the profile was not used"

# A directory of a mount knows where the mount asks.
mount_dataset "$source" mnt cache="$T/cache5",s3-endpoint="$s3_endpoint",s3-credentials="$T/keys",s3-profile=work
larder pin mnt > said || fail "pin by directory: $(cat said)"
larder unpin mnt > said || fail "unpin by directory: $(cat said)"
larder evict mnt > said || fail "evict by directory: $(cat said)"
umount_dataset mnt

# Without keys.
reads cache5 --s3-credentials=none --s3-endpoint="$s3_endpoint/" \
	s3://open-to-all#images/set-1.a:first
grep -q '/open-to-all/.* 206 - ' "$s3_log" || fail "asked with keys"
! grep ' 40[0-9] ' "$s3_log" || fail "refused"

# Through a proxy, which leaves the signature as it is.
start_nginx public 'proxy_pass http://$http_host$request_uri;'
reads cache7 --s3-endpoint="$s3_endpoint" --proxy="$nginx_url" "$source:first"
grep -q ' 206 ' "$nginx_log" || fail "the proxy was not asked"
! grep ' 40[0-9] ' "$s3_log" || fail "refused"

# Keys that no longer serve are replaced while it is mounted.
s3_keys fresh
mount_dataset "$source" mnt "cache=$T/cache6,timeout=3s,refresh=500ms,s3-credentials=$T/fresh,s3-endpoint=$s3_endpoint"
s3_keys fresh test-id wrong
wait_for 60 grep -q ' 403 - ' "$s3_log"
! cat mnt/second > got 2> said || fail "read with a wrong key"
s3_keys fresh
wait_for 60 cmp -s tree/second mnt/second
