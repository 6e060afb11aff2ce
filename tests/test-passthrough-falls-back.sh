#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Where the kernel cannot pass files through, since the cache lies on a stacked filesystem
# or its user is nobody special, files are read as ever and nobody is troubled.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/namespace.sh"
requires fuse root getfattr unshare

everybody_may_mount
said_of() { # MOUNT [AS...]
	local dir=$1
	shift
	"$@" getfattr --only-values -n user.larder.passthrough "$dir"
}

mkdir tree mnt
head -c 3000000 /dev/urandom > tree/big
publish_tree tree mirror d
mount_dataset "$T/mirror#d" probe
case $(said_of probe) in off*kernel*) skip "this kernel has no passthrough" ;; esac
umount_dataset probe

# an ordinary user
as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"
}
chmod 755 "$T"
chmod 644 test.key.pub
chown 65534 mnt home
as_nobody larder mount -c larder.conf -o "key=$T/test.key.pub" "$T/mirror#d" mnt
for _ in 1 2 3; do
	as_nobody cmp tree/big mnt/big
done
said=$(said_of mnt as_nobody)
[ "$said" = "off: only root's mounts have it" ] || fail "'$said'"
[ "$(as_nobody getfattr --only-values -n user.larder.state mnt/big)" = complete ]
as_nobody larder umount mnt

# a stacked filesystem
mkdir layer
mount -t tmpfs tmpfs layer
mkdir layer/lower layer/upper layer/work stacked
mount -t overlay -o "lowerdir=$T/layer/lower,upperdir=$T/layer/upper,workdir=$T/layer/work" \
	overlay stacked 2> said || skip "no overlay here: $(cat said)"
mkdir -m 700 stacked/cache
mount_dataset "$T/mirror#d" mnt "cache=$T/stacked/cache" 
for _ in 1 2 3; do
	cmp tree/big mnt/big
done
[ "$(said_of mnt)" = "off: the cache is on a stacked filesystem" ] ||
	fail "'$(said_of mnt)'"
[ "$(getfattr --only-values -n user.larder.state mnt/big)" = complete ]
umount_dataset mnt
