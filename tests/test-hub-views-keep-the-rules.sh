#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# allow and deny say which repositories are let in, without a request and
# whatever name is used; what is gated or private on the Hub is read by those
# whom gated= names, though the bytes are in the cache already.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model --fixture pile --fixture access --token hf_goodToken
echo hf_goodToken > token
cat > larder.conf <<CONF
cache = $T/cache
token-file = $T/token
[other/here]
source = hf://acme/gated
deny = x/*
[hf]
source = hf://
allow = acme
allow = datasets/monology/*
allow = tiny
deny = ACME/PRIV*
CONF
mkdir mnt
as_other() {
	setpriv --reuid 65534 --regid "${group:-65534}" --clear-groups -- "$@"
}
mount_all() {
	larder mount -c larder.conf -o "${1-}" mnt > mount.out 2> mount.err ||
		{ cat mount.err >&2; fail "cannot mount"; }
}
chmod 755 "$T"
mount_all
[ "$(ls mnt)" = "$(printf '%s\n' hf other)" ]
ls mnt/hf/models/acme/tiny > /dev/null
ls mnt/hf/datasets/monology/pile-uncopyrighted > /dev/null
hub_forget
for name in models/Qwen/Qwen2 models/monology/pile-uncopyrighted \
	datasets/other/pile models/acme/private hub/models--acme--private \
	models/ACME/Private@main spaces/monology/x; do
	expect_fail 'Permission denied' ls "mnt/hf/$name"
done
why() {
	getfattr --only-values -n user.larder.error "$1"
}
[ "$(hub_asked)" = 0 ] || fail "asked for what is denied: $(cat "$hub_log")"
# What is refused has no inode to tell it: its directory says why, as do
# commands.
why mnt/hf/models/Qwen | grep -q "'models/Qwen/Qwen2' .*no pattern of 'allow'"
why mnt/hf/models/acme | grep -q "private' .*deny = ACME"
why mnt/hf/hub | grep -q "acme/private' .*deny = ACME"
expect_fail "acme/private' is not let in here" \
	larder pin -c larder.conf mnt/hf/models/acme/private/config.json
for source in hf://acme/private hf://Qwen/Qwen2; do
	expect_fail "is not let in here" larder ls -c larder.conf \
		-o deny='*/priv*',allow=acme "$source"
done
[ "$(hub_asked)" = 0 ] || fail "asked for what is denied: $(cat "$hub_log")"
# Under another name the Hub says what it is.
umount_dataset mnt
sed -i 's/^deny = ACME.*/deny = acme\/tiny/; s/^allow = acme$/allow = acme\/*/' \
	larder.conf
rm -r cache
mount_all
expect_fail 'Permission denied' ls mnt/hf/models/acme/old-name
expect_fail 'Permission denied' ls mnt/hf/models/tiny@main
ls mnt/hf/models/acme/private > /dev/null

# Gated and private: to the owner, the group, or all.
cat mnt/hf/models/acme/gated/config.json > /dev/null
as_other cat mnt/hf/datasets/monology/pile-uncopyrighted/README.md > /dev/null
for name in models/acme/gated models/acme/private; do
	expect_fail 'Permission denied' as_other cat "mnt/hf/$name/config.json"
	expect_fail 'Permission denied' as_other ls "mnt/hf/$name"
done
expect_fail 'Permission denied' as_other ls mnt/other/here
folder=mnt/hf/hub/models--acme--gated
commit=$(cat "$folder/refs/main")
expect_fail 'Permission denied' as_other cat \
	"$folder/snapshots/$commit/config.json" "$folder/blobs/"*
umount_dataset mnt
mount_all gated=group,gid=123
group=123 as_other cat mnt/hf/models/acme/gated/config.json > /dev/null
expect_fail 'Permission denied' as_other ls mnt/hf/models/acme/gated
umount_dataset mnt
mount_all gated=everyone
as_other cat mnt/hf/models/acme/gated/config.json \
	"$folder/snapshots/$commit/config.json" > /dev/null
umount_dataset mnt
