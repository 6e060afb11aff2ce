#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A plain file server that has never heard of ranges: a tree read in no order
# is right, each pack is sent once, and the log says why that is slow. Nothing
# of it is left when larder has gone.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

mkdir -p tree/small
text_file 3000000 tree/text
random_file 5000000 tree/random
for i in $(seq 60); do
	head -c $((i * 700)) tree/random > "tree/small/$i"
done
publish_tree tree mirror plain
packs=$(find mirror/packs -type f | wc -l)

python3 -u -m http.server --bind 127.0.0.1 --directory mirror 0 \
	> server.out 2> server.log &
wait_for 20 grep -q 'port [0-9]' server.out
port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' server.out)

mkdir mnt
larder mount -f -o "cache=$T/cache,key=$T/test.key.pub" \
	"http://127.0.0.1:$port#plain" mnt 2> mnt.log &
wait_for 20 mountpoint -q mnt
find mnt -type f -print0 | shuf -z |
	xargs -0 -P 6 -n 8 cat > /dev/null || fail "cannot read all"
compare_trees tree mnt
sent=$(grep -c 'GET /packs/.* 200 ' server.log)
[ "$sent" -eq "$packs" ] || fail "$sent bodies of $packs packs"
grep -q 'ignores ranges' mnt.log || fail "the log does not say why"
umount_dataset mnt
[ -z "$(find cache -name '*.tmp*')" ] || fail "something was left behind"
