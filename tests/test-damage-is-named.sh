#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror that is damaged or none at all: each fault is an error that names
# the dataset and the thing, never other bytes, and what is sound stays
# readable. Afterwards the repaired mirror serves everything.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3 getfattr

mkdir tree mnt empty
for i in 1 2; do random_file 3000000 tree/$i; done
publish_tree tree good data --threads 1
options=key=$T/test.key.pub,timeout=3s

# change FILE PYTHON: in a fresh copy of the mirror; d is its bytes.
change() {
	rm -rf bad cache
	cp -a good bad
	python3 -c '
import sys
d = bytearray(open(sys.argv[1], "rb").read())
exec(sys.argv[2])
open(sys.argv[1], "wb").write(d)' "bad/$1" "$2"
}
refused() {
	expect_fail "$1" larder mount -c larder.conf \
		-o "cache=$T/cache,$options" "${2-bad}#data" mnt
}
# Mounts, and the contents are right or an error with this text.
unreadable() {
	mount_dataset "${2-bad}#data" mnt "$options"
	[ "$(ls mnt)" = "$(ls tree)" ] || fail "$1: not listed"
	local said=
	for i in 1 2; do
		cmp -s tree/$i mnt/$i 2> /dev/null && continue
		expect_errno "$EIO" cat mnt/$i
		said+=$(larder_error mnt/$i)
	done
	grep -Eq "$1" <<< "$said" || fail "said '$said', not '$1'"
	umount_dataset mnt
}

catalog=objects/$(sed -n 's/^catalog: sha256:\(..\)\([0-9a-f]*\) .*/\1\/\2/p' \
	good/heads/data)
pack=packs/$(cd good/packs && echo ??/*)
[ -e "good/$catalog" ] && [ -e "good/$pack" ] || fail "one pack is expected"

change larder-mirror 'd = b"larder mirror 7\n"'
refused "format 7, this program reads format 1"
change larder-mirror 'd = b"<html>"'
refused "not a mirror of larder"
rm -rf bad; cp -a good bad; rm bad/larder-mirror bad/heads/data
refused "data.*(no larder mirror|no dataset 'data')"
expect_fail "data.*(no larder mirror|no dataset 'data')" larder mount \
	-o "cache=$T/cache,$options" "empty#data" mnt
expect_fail "nowhere" larder mount -o "cache=$T/cache,$options" \
	"nowhere#data" mnt

change heads/data 'd = b"<html><body>Please log in</body></html>\n"'
refused "data.*not a larder head"
change heads/data 'd = d.replace(b"larder head 1", b"larder head 2")'
refused "data.*newer larder"
change heads/data 'd = d[:len(d) // 2]'
refused "data.*head"
change "$catalog" 'd[len(d) // 2] ^= 1'
refused "data.*(wrong bytes|catalog)"
change "$catalog" 'd = d[:-1]'
refused "data.*(wrong bytes|catalog)"
rm -rf bad; cp -a good bad; rm "bad/$catalog"
refused "data.*(not there|catalog|absent)"

change "$pack" 'd[5000] ^= 1'
unreadable "wrong bytes"
# A frame that says it is larger, and one of another format.
change "$pack" 'd[5:7] = b"\xff\xff"'
unreadable "wrong bytes"
change "$pack" 'd[0:4] = b"\x50\x2a\x4d\x18"'
unreadable "wrong bytes"
change "$pack" 'd = d[:len(d) // 2]'
unreadable "expected|wrong|short|size"
rm -rf bad cache; cp -a good bad; rm "bad/$pack"
unreadable "No such file"
rm -rf bad cache; cp -a good bad; rm -r bad/places
unreadable "No such file"

start_httpd good
for path in '*' '/heads/*' "/$catalog"; do
	rm -rf cache
	httpd_control "clear&add=html200&path=$path"
	refused "data.*a page of HTML instead of the file" "$httpd_url"
done
for path in '/packs/*' '/places/*'; do
	rm -rf cache
	httpd_control "clear&add=html200&path=$path"
	unreadable "a page of HTML instead of the file" "$httpd_url"
done
httpd_control clear
mount_dataset "$httpd_url#data" mnt "$options"
compare_trees tree mnt
