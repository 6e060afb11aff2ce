#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A file that was opened before a new snapshot came reads on from its own, also
# what was never read so far. A tag stays what it is beside the moving head.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3 getfattr

mkdir -p tree/dir
stamped write 1 3000000 tree/stays
stamped write 1 3000000 tree/dir/changes
echo gone > tree/goes
publish_tree tree mirror moving --tag v1
start_nginx mirror
cat > many.conf <<-CONF
	cache = $T/cache
	key = $T/test.key.pub
	refresh = 1s
	[moving]
	mirror = $nginx_url
	[fixed]
	mirror = $nginx_url
	name = moving
	tag = v1
CONF
mkdir many
larder mount -c many.conf many > /dev/null
mount_dataset "$nginx_url#moving" mnt refresh=1s

stamped check 1 3000000 mnt/dir/changes
exec 3< mnt/dir/changes 4< many/moving/dir/changes
head -c 1000 <&3 | cmp - <(head -c 1000 tree/dir/changes)
first=$(getfattr --only-values -n user.larder.snapshot mnt)

cp tree/dir/changes old
stamped write 2 3000000 tree/dir/changes
mv tree/goes tree/comes
publish_tree tree mirror moving

shows_new() {
	[ -e "$1/comes" ] && [ ! -e "$1/goes" ] &&
		stamped check 2 3000000 "$1/dir/changes" 2> /dev/null
}
wait_for 60 shows_new mnt
wait_for 60 shows_new many/moving
stamped check 1 3000000 mnt/stays
sleep 1.1 # attributes of the root are kept for a second
compare_trees tree mnt
compare_trees tree many/moving
[ "$(getfattr --only-values -n user.larder.snapshot mnt)" != "$first" ]

# What was opened before, from where it was read up to; and from the start.
cat <&3 | cmp - <(tail -c +1001 old) || fail "an open file changed"
cat <&4 | cmp - old || fail "an open file changed"
python3 -c 'import os; os.pread(3, 100, 0) == os.pread(4, 100, 0) or exit(1)'
stamped check 1 3000000 many/fixed/dir/changes
[ -e many/fixed/goes ] && [ ! -e many/fixed/comes ] || fail "the tag moved"
