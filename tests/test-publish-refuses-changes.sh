#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A file that changes while it is read, or cannot be read, is named; the
# publish fails and the old head stays.
. "${top_srcdir:-.}/tests/lib.sh"

mkdir tree
head -c 30000000 /dev/urandom > tree/a
echo stable > tree/b
larder publish -n set tree mirror > /dev/null 2>&1
head=$(sha256sum < mirror/heads/set)
unchanged() {
	[ "$(sha256sum < mirror/heads/set)" = "$head" ] || fail "another head"
	[ ! -e mirror/lease ] || fail "the lease was left behind"
}

# Large enough that a busy machine writes to it in the meantime.
cp tree/a tree/growing
(while :; do echo more >> tree/growing; done) &
writer=$!
expect_fail "'growing' was changed while it was read" \
	larder publish -n set tree mirror
kill $writer
wait $writer 2> /dev/null || true
unchanged
rm tree/growing

if [ "$(id -u)" != 0 ]; then
	echo secret > tree/unreadable
	chmod 000 tree/unreadable
	expect_fail "cannot read 'unreadable': Permission denied" \
		larder publish -n set tree mirror
	unchanged
	rm -f tree/unreadable
	mkdir -m 000 tree/closed
	expect_fail "cannot open directory 'closed': Permission denied" \
		larder publish -n set tree mirror
	unchanged
	rmdir tree/closed
elif command -v setpriv > /dev/null; then
	# As somebody who may not read everything.
	echo secret > tree/unreadable
	chmod 600 tree/unreadable
	chmod 755 "$T"
	chown -R 65534 mirror
	expect_fail "cannot read 'unreadable': Permission denied" \
		setpriv --reuid 65534 --clear-groups \
		"$top_builddir/larder" publish -n set tree mirror
	unchanged
	rm tree/unreadable
	chown -R 0 mirror
fi

# The mirror below the tree would grow into itself.
larder publish -n set tree tree/mirror > /dev/null 2>&1 &&
	fail "published a mirror into itself"
expect_fail "the mirror lies inside the tree, at 'mirror'" \
	larder publish -n set tree tree/mirror
larder publish -n set --exclude mirror tree tree/mirror > /dev/null 2>&1 ||
	fail "an excluded mirror may be inside"
rm -rf tree/mirror
larder publish -n set tree mirror 2> /dev/null | grep -q '^unchanged\|^published'
larder check mirror > /dev/null
