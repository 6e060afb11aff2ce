#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# Sizes and offsets around 2^31 and 2^32 and far beyond: sparse
# files with stamps at the borders read right, and have their sizes.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

p31=$((1 << 31)) p32=$((1 << 32))
sizes=($((p31 - 1)) $((p31 + 1)) $p32 $((p32 + 5)) $((p32 * 3 + 4097)))
borders=(0 $p31 $p32 $((p32 * 2)) $((p32 * 3)))
mkdir tree
for size in "${sizes[@]}"; do
	stamped write "$size" "$size" "tree/$size" $(
		for at in "${borders[@]}"; do
			[ "$at" -ge "$size" ] || echo "$at"
		done)
done
# More than 65,536 chunks: 2^20 x 4 MiB would be 4 TiB of zeros.
truncate -s $((5 << 40)) tree/huge 2> /dev/null || rm -f tree/huge
[ -n "${LARDER_TEST_FULL-}" ] || rm -f tree/huge
publish_tree tree mirror sizes
start_nginx mirror
mount_dataset "$nginx_url#sizes" mnt

for round in cold warm; do
	for size in "${sizes[@]}"; do
		file=mnt/$size
		[ "$(stat -c %s "$file")" = "$size" ] || fail "size of $file"
		ls -l "$file" | grep -q " $size " || fail "ls of $file"
		for at in "${borders[@]}" $((size - 1)) "$size"; do
			stamped check -s -b 8192 -o "$at" "$size" "$size" \
				"$file" || fail "$round: at $at"
			[ "$at" -ge "$size" ] ||
				stamped check -b 8192 -o "$at" "$size" \
					"$size" "$file" || fail "$round: at $at"
		done
	done
	drop_caches
done
python3 - mnt/$((p32 + 5)) <<'PYTHON'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
assert os.lseek(fd, 0, os.SEEK_END) == 2 ** 32 + 5
assert os.lseek(fd, 2 ** 32, os.SEEK_DATA) == 2 ** 32
assert os.lseek(fd, 2 ** 32, os.SEEK_HOLE) == 2 ** 32 + 5
PYTHON
if [ -e tree/huge ]; then
	[ "$(stat -c %s mnt/huge)" = $((5 << 40)) ] || fail "size of huge"
	tail -c 4096 mnt/huge | cmp -n 4096 - /dev/zero
	dd if=mnt/huge bs=4096 count=1 skip=$((1 << 28)) status=none |
		cmp -n 4096 - /dev/zero
fi
cmp tree/$((p31 + 1)) mnt/$((p31 + 1))
