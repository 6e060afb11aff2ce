#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# mount(8) with -t larder and -t fuse.larder: every generic word is accepted, both ways to
# write a comma work, '#' and blanks in SOURCE survive, an unknown word is named with the
# nearest one, and the exit code is mount's.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/namespace.sh"
requires fuse root
in_namespace

mkdir tree "mirror, a#1" mnt "mount point"
echo hello > tree/file
publish_tree tree "mirror, a#1" d
source="$T/mirror, a#1#d"
base="cache=$T/cache,key=$T/test.key.pub"

mounted() {
	[ "$(cat "$1/file")" = hello ] || fail "no file in $1"
	findmnt -n -t fuse.larder -o SOURCE --mountpoint "$T/$1" > source
	[ "$(cat source)" = "${2:-$source}" ] || fail "shown as '$(cat source)'"
	case ,$(findmnt -n -o OPTIONS --mountpoint "$T/$1"), in
	*,ro,*nosuid,*nodev,*) ;;
	*) fail "options: $(findmnt -n -o OPTIONS --mountpoint "$T/$1")" ;;
	esac
	umount "$1"
}

# mount.fuse3 passes its words through a shell: no blanks and commas there
! command -v mount.fuse3 > /dev/null || ln -s "mirror, a#1" link
for words in rw ro rw,dev,suid,exec defaults,nofail,_netdev noauto,user users,owner,group \
	noatime,nodiratime strictatime,lazytime relatime,sync,dirsync \
	x-systemd.automount,x-systemd.mount-timeout=20s,X-mount.mkdir comment=hello \
	noexec uhelper=x nosuid,,nodev,; do
	mount -t larder -o "$words,$base" "$source" mnt || fail "words $words"
	mounted mnt
	[ ! -L link ] || {
		mount -t fuse.larder -o "$words,$base" "$T/link#d" mnt
		mounted mnt "$T/link#d"
	}
done
mount -t larder -r -o "$base" "$source" "mount point"
mounted "mount point"
mount -t larder -n -v -o "$base" "$source" mnt
mounted mnt
mount -t larder -s -o "$base,no-such-word=1" "$source" mnt
mounted mnt
mount -f -t larder -o "$base" "$source" mnt
! mountpoint -q mnt || fail "mount -f mounted"

# commas in a value
mount -t larder -o "$base"',fsname="a,b c"' "$source" mnt
mounted mnt 'a,b c'
mount.larder "$source" mnt -o "$base"',fsname="a,b\"c"'
mounted mnt 'a,b"c'
mount -t larder -o "$base"',fsname=a\,b\\c' "$source" mnt
mounted mnt 'a,b\c'

if [ -L link ]; then
	mount -t fuse.larder -o "rw,_netdev,nofail,$base" "$T/link#d" mnt
	mounted mnt "$T/link#d"
fi

code() {
	local want=$1 status=0
	shift
	"$@" > said 2>&1 || status=$?
	[ $status = "$want" ] || fail "exit $status, not $want: $* ($(cat said))"
}
code 1 mount -t larder -o "$base,chache=/x" "$source" mnt
grep -q "'cache'" said || fail "no nearest word: $(cat said)"
code 1 mount -t larder -o "$base" nonsense mnt
code 32 mount -t larder -o "$base" "$source" "$T/tree/file"
code 32 mount -t larder -o "cache=$T/c2,key=$T/test.key.pub,timeout=1s" "$T/none#d" mnt
code 32 mount.larder "$source" "$T/absent" -o "$base"
code 1 mount.larder "$source"
code 0 mount.larder --help

# remount reaches the process
mount -t larder -o "$base" "$source" mnt
mount -o remount,ro mnt
mounted mnt

# what --fstab prints is what mount -a needs
larder mount --fstab -o "$base"',fsname="x,y"' "$source" "$T/mount point" > fstab
mount -T fstab -a
mounted "mount point" x,y
