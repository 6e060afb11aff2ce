#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# While a large file is copied, two of its three mirrors at a time are killed,
# stopped, gone on with and started again at random: the copy is equal and
# nothing was an error. LARDER_TEST_FULL=1: 5 GiB, and no limit to the mirrors.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

size=$((48 << 20)) slow='add=trickle&n=1200000&path=/packs/*'
if [ -n "${LARDER_TEST_FULL-}" ]; then
	size=$((5 << 30)) slow=
fi
mkdir tree copy
random_file $size tree/file
publish_tree tree mirror fickle

urls=() pids=()
begin() { # N
	start_httpd mirror ${urls[$1]+--port "${urls[$1]##*:}"} \
		${slow:+--rule "$slow"}
	urls[$1]=$httpd_url pids[$1]=$httpd_pid
}
for i in 0 1 2; do begin $i; done
{
	printf '%s\n' "cache = $T/cache" "key = $T/test.key.pub" '[fickle]'
	printf 'mirror = %s\n' "${urls[@]}"
} > three.conf
mkdir mnt
larder mount -c three.conf fickle mnt > /dev/null

RANDOM=${SEED:=$$}
echo "SEED=$SEED"
cp mnt/file copy/file &
copier=$!
rounds=0
until lib_has_ended $copier; do
	spared=$((RANDOM % 3))
	for i in 0 1 2; do
		[ $i -ne $spared ] || continue
		case $((RANDOM % 2)) in
		0) kill -STOP "${pids[i]}" ;;
		1) kill -KILL "${pids[i]}" ;;
		esac
	done
	sleep 0.$((RANDOM % 9 + 1))
	[ $((RANDOM % 4)) -ne 0 ] || sleep 3
	for i in 0 1 2; do
		kill -CONT "${pids[i]}" 2> /dev/null &&
			! lib_has_ended "${pids[i]}" || begin $i
	done
	sleep 0.$((RANDOM % 5 + 1))
	rounds=$((rounds + 1))
done
wait $copier || fail "the copy failed"
[ $rounds -ge 3 ] || fail "only $rounds rounds"
cmp tree/file copy/file
