#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# st_blocks covers the size, so that du is right and tools that know
# sparse files copy every byte, cold and warm; empty files are files; SEEK_DATA and
# SEEK_HOLE say that all is data.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3 rsync nginx

mkdir tree
head -c 3000000 /dev/urandom > tree/data
head -c 5000000 /dev/zero > tree/zeros
truncate -s 7000001 tree/sparse
printf x | dd of=tree/sparse bs=1 seek=4000000 conv=notrunc status=none
: > tree/empty
printf x > tree/one
publish_tree tree mirror d
start_nginx mirror
mount_dataset "$nginx_url#d" mnt

check_blocks() {
	local file size blocks unit
	for file in mnt/*; do
		read -r size blocks unit < <(stat -c '%s %b %B' "$file")
		[ "$unit" = 512 ] || fail "$file: unit $unit"
		if ((blocks * 512 < size || blocks * 512 >= size + (1 << 20))); then
			fail "$file: $blocks blocks for $size bytes"
		fi
	done
	[ "$(du -sb tree/data tree/zeros | cut -f 1 | paste -sd+ | bc)" = \
		"$(du -sb mnt/data mnt/zeros | cut -f 1 | paste -sd+ | bc)" ]
	local sum=$((3000000 + 5000000 + 7000001 + 1)) used
	used=$(($(du -s mnt | cut -f 1) * 1024))
	((used * 100 >= sum * 99 && used * 100 <= sum * 101)) || fail "du says $used of $sum"
}
requires bc
check_blocks

copies() {
	tar --sparse -C mnt -cf copy.tar . && mkdir untar && tar -C untar -xf copy.tar
	cp -r --sparse=auto mnt auto
	cp -r --sparse=always mnt always
	rsync -rS mnt/ rsynced/
	for copy in untar auto always rsynced; do
		diff -r tree "$copy" || fail "$copy differs"
	done
	rm -r copy.tar untar auto always rsynced
}
copies
check_blocks
copies

cat > seek.py <<'PY'
import errno, mmap, os, sys
def error(call):
    try:
        return call()
    except OSError as e:
        return -e.errno
for name, size in (('data', 3000000), ('sparse', 7000001), ('zeros', 5000000)):
    fd = os.open('mnt/' + name, os.O_RDONLY)
    for at in (0, 1, 4096, size - 1):
        assert os.lseek(fd, at, os.SEEK_DATA) == at, (name, at)
        assert os.lseek(fd, at, os.SEEK_HOLE) == size, (name, at)
    for whence in (os.SEEK_DATA, os.SEEK_HOLE):
        assert error(lambda: os.lseek(fd, size, whence)) == -errno.ENXIO
    assert os.lseek(fd, 0, os.SEEK_END) == size
fd = os.open('mnt/empty', os.O_RDONLY)
assert os.read(fd, 10) == b'' and os.pread(fd, 10, 10) == b''
assert error(lambda: os.lseek(fd, 0, os.SEEK_DATA)) == -errno.ENXIO
try:
    mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    sys.exit('mapped an empty file')
except ValueError:
    pass
PY
python3 seek.py
[ "$(sha256sum < mnt/empty)" = "$(sha256sum < /dev/null)" ]
umount_dataset mnt

# an empty file costs no request
mount_dataset "$nginx_url#d" mnt "cache=$T/cache2"
ls mnt > /dev/null
before=$(wc -l < "$nginx_log")
cat mnt/empty
cp mnt/empty copy
[ "$(wc -l < "$nginx_log")" = "$before" ] || fail "asked for an empty file"
