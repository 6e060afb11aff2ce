#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# No reply is shorter than asked before the end of the file: eight
# threads read one file while its pages are dropped again and again, with
# odd read sizes and small and large readahead, cold and warm.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx

size=$(((24 << 20) + 5))
[ -z "${LARDER_TEST_FULL-}" ] || size=$(((64 << 20) + 5))
mkdir tree
stamped write 3 $size tree/file
publish_tree tree mirror short
start_nginx mirror

for read_ahead in 128K 1M 16M; do
	mount_dataset "$nginx_url#short" mnt \
		"read-ahead=$read_ahead,cache=$T/cache.$read_ahead"
	# The kernel's file of it, where that may be written.
	kernels=/sys/class/bdi/$(mountpoint -d mnt)/read_ahead_kb
	[ ! -w "$kernels" ] ||
		[ "$(($(cat "$kernels") << 10))" -eq "$(numfmt --from=iec \
			"$read_ahead")" ] || fail "read-ahead: $(cat "$kernels")"
	stamped check -t 8 -d -b 131072 3 $size mnt/file
	stamped check -t 8 -d -b 65537 3 $size mnt/file
	stamped check -t 8 -d -b 4095 3 $size mnt/file
	umount_dataset mnt
done
mount_dataset "$nginx_url#short" mnt
stamped check -b 1048577 3 $size mnt/file
head -c 4096 mnt/file > part
# Byte by byte over the start and over the end.
python3 - mnt/file $size <<'PYTHON'
import os, sys
fd, size = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2])
for at in [*range(100), *range(size - 100, size)]:
    assert len(os.pread(fd, 1, at)) == 1, at
for at in [size, size + 1, 2 ** 40]:
    assert os.pread(fd, 4096, at) == b"", at
assert len(os.pread(fd, 4096, size - 5)) == 5
PYTHON
