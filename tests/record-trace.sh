#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Records what a program reads through a mount, for tests/data/traces:
#
#	tests/record-trace.sh TREE COMMAND... > TRACE
#
# publishes TREE, mounts it with a cold cache, runs COMMAND in the mounted
# directory and prints "blob NUMBER BYTES" and
# "read NUMBER OFFSET LENGTH ENDS-FILE" lines, in the order in which the reads
# came. As root, with the larder of PATH.
set -euo pipefail
tree=$1
shift
T=$(mktemp -d)
trap 'umount -l "$T/mnt" 2> /dev/null; wait; rm -rf "$T"' EXIT
larder keygen "$T/key" > /dev/null
larder publish -n trace -k "$T/key" "$tree" "$T/mirror" > /dev/null 2>&1
mkdir "$T/mnt"
larder mount -f --debug=dataset -o "cache=$T/cache,key=$T/key.pub" \
	"$T/mirror#trace" "$T/mnt" > /dev/null 2> "$T/log" &
until mountpoint -q "$T/mnt"; do sleep 0.1; done
echo 3 > /proc/sys/vm/drop_caches
(cd "$T/mnt" && "$@" > /dev/null)
larder umount "$T/mnt"
wait
echo "# $(basename "$1") on $(uname -sr)"
awk '
	/read blob=/ {
		for (i = 1; i <= NF; i++)
			if (split($i, pair, "=") == 2) v[pair[1]] = pair[2]
		if (!(v["blob"] in number)) {
			number[v["blob"]] = ++count
			print "blob", count, v["of"]
		}
		print "read", number[v["blob"]], v["start"], v["end"] - v["start"], v["ends_file"]
	}' "$T/log"
