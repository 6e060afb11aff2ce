#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# Crawlers: ls -lR, find and du over a cold mount ask for catalogs
# only, few of them, and nothing when warm; updatedb does not go in; opening
# many files reads their neighbours once, not whole files of data.
# LARDER_TEST_FULL=1: 100,000 files.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

count=8000
[ -z "${LARDER_TEST_FULL-}" ] || count=100000
python3 - $count <<'PYTHON'
import os, sys
for i in range(int(sys.argv[1])):
    if i % 500 == 0:
        os.makedirs(f"tree/{i // 5000}/{i // 500}")
    with open(f"tree/{i // 5000}/{i // 500}/{i}", "w") as f:
        f.write(f"{i} " * 400)
PYTHON
random_file $((20 << 20)) tree/large
publish_tree tree mirror many
start_nginx mirror
mount_dataset "$nginx_url#many" mnt

ls -lR --color=always mnt > listing
[ "$(grep -c '^-' listing)" -eq $((count + 1)) ] || fail "not all are listed"
find mnt -size +1 > /dev/null
du -s mnt > /dev/null
find mnt -ls > /dev/null
[ "$(nginx_requests '(packs|places)/')" -eq 0 ] || fail "listing read data"
listing=$(nginx_requests)
[ "$listing" -le $((count / 16384 + 8)) ] || fail "$listing requests to list"
nginx_forget
within 5000 find mnt -ls > /dev/null
[ "$(nginx_requests '(objects|packs)/')" -eq 0 ] || fail "warm listing asked"

# As a file manager does: 4 KiB of each of 1000 files.
find mnt -name '[0-9]*' -type f > files
head -n 1000 files |
	while read -r file; do head -c 4096 "$file"; done > /dev/null
head -c 4096 mnt/large > /dev/null
sleep 0.5
[ "$(nginx_requests packs/)" -le 100 ] || fail "a request for each file"
[ "$(nginx_bytes packs/)" -lt $((24 << 20)) ] || fail "whole files were read"
[ "$(cached_bytes mnt/large)" -le $((8 << 20)) ] ||
	fail "4 KiB brought $(cached_bytes mnt/large)"

if command -v updatedb > /dev/null; then
	updatedb -l 0 -U "$T/mnt" -o "$T/locate.db" --prunefs fuse.larder
	! locate -d "$T/locate.db" /large | grep -q . || fail "updatedb went in"
fi
