#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Without a mount: every file of a random tree comes back through larder cat
# as it was, from a mirror that check finds sound.
. "${top_srcdir:-.}/tests/lib.sh"
requires python3

seed=${SEED:-$RANDOM}
python3 "$top_srcdir/tests/make-tree.py" --seed "$seed" --entries 150 tree
echo "seed $seed"
publish_tree tree mirror set
larder check mirror > /dev/null
count=0
# In C: of a name that ends within a character, read would take the end of the
# name for a part of it, and the next name with it.
while IFS= LC_ALL=C read -r -d '' path; do
	larder cat -c "$T/larder.conf" -o "cache=$T/cache,key=$T/test.key.pub" \
		"mirror#set:$path" > copy || fail "cannot cat $path"
	cmp copy "tree/$path" || fail "differs: $path"
	count=$((count + 1))
done < <(cd tree && find . -type f -size -2M -print0 | sed -z 's|^\./||' |
	LC_ALL=C sort -z | head -z -n 40)
[ $count = 40 ] || fail "only $count files"
