#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An overlay gives a dataset a writable layer: files are read, changed, added and
# removed there, and the dataset stays as it is.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root getfattr

mkdir tree tree/dir layer both
echo one > tree/file
echo two > tree/dir/file
head -c 3000000 /dev/urandom > tree/big
ln -s dir/file tree/link
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt
mount -t tmpfs tmpfs layer
mkdir layer/upper layer/work
mount -t overlay -o "lowerdir=$T/mnt,upperdir=$T/layer/upper,workdir=$T/layer/work" \
	overlay both 2> said || skip "no overlay here: $(cat said)"
diff -r tree both
# also where the kernel reads the lower file from the cache by itself
state() { getfattr --only-values -n user.larder.state mnt/big; }
passed() {
	local fd said
	exec {fd}< both/big
	said=$(state)
	cmp tree/big "/proc/self/fd/$fd"
	exec {fd}<&-
	[ "$said" = passthrough ]
}
case $(getfattr --only-values -n user.larder.passthrough mnt) in
on*) wait_for 60 passed ;;
esac
echo changed >> both/file
printf x | dd of=both/big bs=1 seek=1000000 conv=notrunc status=none
rm both/dir/file
echo new > both/dir/new
mv both/link both/renamed
[ "$(cat both/file)" = "$(printf 'one\nchanged')" ]
[ "$(ls both/dir)" = new ]
[ "$(readlink both/renamed)" = dir/file ]
cmp -n 1000000 tree/big both/big
diff -r tree mnt
