#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A snapshot of many entries: time to mount from a cold cache, memory after
# `find` over all of it, and `find -ls` against the same walk on the bare disk.
#
#   bench/million.sh [ENTRIES]
. "$(dirname "$0")/lib.sh"
entries=${1:-1000000}

mkdir -p "$work/tree" "$work/mnt"
python3 - "$work/tree" "$entries" <<'P'
import os, sys
root, n = sys.argv[1], int(sys.argv[2])
for i in range(n):
    if i % 1000 == 0:
        d = os.path.join(root, "%02d" % (i // 100000), "%05d" % (i // 1000))
        os.makedirs(d)
    os.close(os.open(os.path.join(d, "sample-%07d.json" % i), os.O_CREAT | os.O_WRONLY, 0o644))
P
"$LARDER" keygen "$work/key" > /dev/null
/usr/bin/time -f 'publish: %e s, peak %M KiB' \
	"$LARDER" publish -n many -k "$work/key" "$work/tree" "$work/mirror" > /dev/null
drop_caches
bare_cold=$(seconds find "$work/tree" -ls)
bare_warm=$(seconds find "$work/tree" -ls)
drop_caches
printf 'mount from a cold cache: %s s\n' "$(seconds "$LARDER" mount -o \
	"cache=$work/cache,key=$work/key.pub" "$work/mirror#many" "$work/mnt")"
pid=$(daemon_of "$work/mnt")
row "find -ls, first" "$(seconds find "$work/mnt" -ls)" "bare disk, cold" "$bare_cold"
printf 'memory (RssAnon + RssShmem) after find: %s KiB\n' "$(memory_kib "$pid")"
row "find -ls, again" "$(seconds find "$work/mnt" -ls)" "bare disk, warm" "$bare_warm"
echo 2 > /proc/sys/vm/drop_caches
row "find -ls, dentries dropped" "$(seconds find "$work/mnt" -ls)" "bare disk, cold" "$bare_cold"
printf 'memory: %s KiB\n' "$(memory_kib "$pid")"
