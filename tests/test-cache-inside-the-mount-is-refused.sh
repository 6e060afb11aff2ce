#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A cache, key, configuration or mirror inside the mount point is refused at once with
# both paths named, however the path gets there, and nothing is mounted.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root

mkdir tree mnt mnt/inside elsewhere bound
echo data > tree/file
publish_tree tree mirror d
ln -s mnt/inside link
ln -s ../mnt elsewhere/up
mount --bind mnt bound
key=$T/test.key.pub

refused() {
	local named=$1 start=$SECONDS
	shift
	expect_fail "$named.*lies inside the mount point '$T/mnt'" "$@"
	[ $((SECONDS - start)) -le 20 ] || fail "took $((SECONDS - start)) s: $*"
	! grep -q " $T/mnt .* fuse" /proc/self/mountinfo || fail "mounted: $*"
}
try() {
	refused "$1" timeout 20 larder mount -c "${4:-$T/larder.conf}" \
		-o "cache=$2,key=${3:-$key}" "$T/mirror#d" mnt
}
for cache in "$T/mnt" "$T/mnt/" "$T/mnt/inside" "$T/mnt/new/deep" mnt/inside \
	"$T/link" "$T/link/new" "$T/elsewhere/up/x" "$T/bound" "$T/bound/new" \
	"$T/elsewhere/../mnt/x"; do
	try "cache directory '[^']*$(basename "$cache")/?'" "$cache"
done
cp "$key" mnt/key.pub
try "key file '$T/mnt/key.pub'" "$T/cache" "$T/mnt/key.pub"
cp larder.conf mnt/larder.conf
try "configuration '$T/mnt/larder.conf'" "$T/cache" "$key" mnt/larder.conf
cp -r mirror mnt/mirror
refused "mirror '$T/mnt/mirror'" timeout 20 larder mount -c larder.conf \
	-o "cache=$T/cache,key=$key" mnt/mirror#d mnt
refused "mirror 'file://|mirror '$T/mnt/mirror'" timeout 20 larder mount -c larder.conf \
	-o "cache=$T/cache,key=$key" "file://$T/mnt/mirror#d" mnt

# with the working directory inside it is only a mount
(cd mnt && larder mount -c "$T/larder.conf" -o "cache=$T/cache,key=$key" \
	../mirror#d . > /dev/null)
[ "$(cat mnt/file)" = data ]
(cd mnt && larder umount "$T/mnt") 2> /dev/null || larder umount mnt
