#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Gated, private, renamed, disabled, missing: each says what it is and what to
# do, before the mount or at the file. A token is found where Hub programs look.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model --fixture access --token hf_goodToken
cache=cache=$T/cache
look() {
	larder ls -o "$cache" "$@"
}

expect_fail 'private .*token-file' look hf://acme/private
expect_fail 'private .*token-file' look hf://acme/none
expect_fail 'disabled' look hf://acme/disabled
expect_fail "no revision 'v9'" look hf://acme/tiny@v9
expect_fail "no 'nowhere'" look hf://acme/tiny/nowhere
expect_fail 'names no repository' look hf://-acme/x
expect_fail 'names no repository' look hf://acme/ti--ny
expect_fail 'no valid revision' look hf://acme/tiny@
expect_fail 'no directory' look hf://acme/tiny/../x
expect_fail 'no Hub answers there' \
	env HF_ENDPOINT="$hub_url/nothing" larder ls -o "$cache" hf://acme/tiny
larder mount -o "$cache" hf://acme/none mnt 2> said && fail "mounted nothing"
mkdir mnt
larder mount -o "$cache" hf://acme/none mnt 2> said && fail "mounted nothing"
grep -q 'acme/none' said

# A gated repository can be listed, not read.
mount_hub hf://acme/gated mnt
[ "$(stat -c %s mnt/model.safetensors)" = 900001 ]
expect_fail 'Permission denied' cat mnt/config.json
expect_fail 'Permission denied' cat mnt/model.safetensors
getfattr --only-values -n user.larder.error mnt/config.json | grep -q 'gated'
umount_dataset mnt

# The token: option, variables, files; read again when it changes.
echo '  hf_wrongToken' > token
mount_hub hf://acme/gated mnt "token-file=$T/token"
expect_fail 'Permission denied' cat mnt/config.json
getfattr --only-values -n user.larder.error mnt/config.json |
	grep -q 'does not know this token'
printf ' hf_goodToken\r\n' > token
wait_for 20 cat mnt/config.json
wait_for 20 cat mnt/model.safetensors > /dev/null
umount_dataset mnt
HF_TOKEN=hf_goodToken look hf://acme/private > said
grep -qx config.json said
rm -r "$T/cache"
HUGGING_FACE_HUB_TOKEN=hf_goodToken look hf://acme/private > said
rm -r "$T/cache"
expect_fail "cannot read token file '$T/none'.*No such file" \
	look -o "token-file=$T/none" hf://acme/private
mkdir -p hfhome
echo hf_goodToken > hfhome/token
HF_HOME=$T/hfhome look hf://acme/private > said
rm -r "$T/cache"
HF_TOKEN_PATH=$T/hfhome/token look hf://acme/private > said
rm -r "$T/cache"
expect_fail 'private' env HF_HOME="$T/hfhome" HF_HUB_DISABLE_IMPLICIT_TOKEN=1 \
	larder ls -o "$cache" hf://acme/private
expect_fail 'does not know this token' \
	env HF_TOKEN=hf_bad larder ls -o "$cache" hf://acme/private

# Renamed and old names lead on; nothing is asked when there is no network.
look hf://acme/old-name | cmp - <(look hf://acme/tiny)
look hf://tiny | cmp - <(look hf://acme/tiny)
hub_forget
HF_HUB_OFFLINE=1 look hf://acme/tiny > /dev/null
expect_fail HF_HUB_OFFLINE env HF_HUB_OFFLINE=yes \
	larder ls -o "$cache" hf://acme/gated
expect_fail HF_HUB_OFFLINE env HF_HUB_OFFLINE=1 \
	larder cat -o "$cache" hf://acme/tiny:README.md
[ "$(hub_asked)" = 0 ] || fail "asked: $(cat "$hub_log")"
no_token hf_goodToken
