#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A connection that breaks in the body, at its first byte, in the
# middle, at its last, once or three times: the bytes are right, each
# request starts at a frame that is missing, and what had come is not sent
# again. A server that restarts costs a pause, not an error.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

size=$((6 << 20))
mkdir tree
random_file $size tree/file
publish_tree tree mirror drop
start_httpd mirror

starts_are_frames() {
	python3 - "$httpd_log" mirror <<'PYTHON'
import glob, json, struct, sys
frames = {}
for path in glob.glob(sys.argv[2] + "/packs/*/*"):
    data = open(path, "rb").read()
    table, = struct.unpack_from("<Q", data, len(data) - 24)
    count, = struct.unpack_from("<I", data, table + 16)
    frames[path[len(sys.argv[2]):]] = {
        struct.unpack_from("<Q", data, table + 24 + 48 * i + 32)[0]
        for i in range(count)}
for line in open(sys.argv[1]):
    r = json.loads(line)
    if r["path"] in frames:
        first = int(r["range"].split("=")[1].split("-")[0])
        assert first in frames[r["path"]], r
PYTHON
}

for fault in 'n=1&times=1' 'n=350000&times=1' 'n=350000&times=3' \
	'n=1500000&times=1' 'n=1048575&times=2'; do
	rm -rf cache
	httpd_control "clear&add=drop_after&path=/packs/*&$fault"
	httpd_forget
	mount_dataset "$httpd_url#drop" mnt
	cmp tree/file mnt/file || fail "$fault"
	httpd_control sync
	starts_are_frames || fail "$fault: asked for other places"
	[ "$(httpd_bytes /packs/)" -le $((2 * size)) ] ||
		fail "$fault: $(httpd_bytes /packs/) bytes"
	umount_dataset mnt
done

rm -rf cache
httpd_control "clear&add=close&path=/packs/*&times=2"
mount_dataset "$httpd_url#drop" mnt
cmp tree/file mnt/file
