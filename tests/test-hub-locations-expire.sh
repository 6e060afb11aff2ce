#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A signed location is used while it holds and renewed once for all who wait:
# no reader notices, nobody asks with HEAD, and where the Hub
# itself refuses, the error comes at once.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

mkdir tree
random_file 30000001 tree/model.bin
random_file 5000001 tree/other.bin
start_hub --repo "model:acme/made=$T/tree"

# Each signature holds a second, the file takes several.
for sign in expires amz opaque; do
	hub_set "{\"seconds\": 1, \"sign\": \"$sign\"}"
	rm -rf cache
	mount_hub hf://acme/made mnt
	hub_forget
	for i in 0 5 10 15 20 25; do
		dd if=mnt/model.bin bs=1M skip=$i count=2 2> /dev/null |
			cmp - <(dd if=tree/model.bin bs=1M skip=$i count=2 \
				2> /dev/null) || fail "$sign, MiB $i"
		[ $((i % 10)) = 0 ] || sleep 1.1
	done
	[ "$(hub_asked 'model.bin.* route=resolve')" -le 6 ] ||
		fail "$sign: resolved $(hub_asked 'route=resolve') times"
	umount_dataset mnt
done

# Its end is stated: it is renewed then, and not when it is refused.
hub_set '{"seconds": 1, "grace": 3600, "sign": "expires"}'
rm -rf cache
mount_hub hf://acme/made mnt
head -c 1000 mnt/model.bin > /dev/null
sleep 1.1
hub_forget
dd if=mnt/model.bin bs=1M skip=20 count=1 2> /dev/null |
	cmp - <(dd if=tree/model.bin bs=1M skip=20 count=1 2> /dev/null)
[ "$(hub_asked 'route=resolve')" -ge 1 ] || fail "not renewed at its end"
umount_dataset mnt

# Fifty readers of one file, whose location is refused under them all.
hub_set '{"seconds": 3600, "grace": 0, "sign": "expires"}'
rm -rf cache
mount_hub hf://acme/made mnt
head -c 1000 mnt/model.bin > /dev/null
hub_faults '{"fault": "expired", "route": "cdn", "times": 1}'
hub_forget
pids=()
for i in $(seq 0 49); do
	dd if=mnt/model.bin bs=4096 skip=$((i * 140)) count=2 \
		of="part$i" 2> "said$i" &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid" || fail "a reader noticed: $(cat said*)"
done
for i in $(seq 0 49); do
	dd if=tree/model.bin bs=4096 skip=$((i * 140)) count=2 2> /dev/null |
		cmp - "part$i"
done
[ "$(hub_asked 'route=resolve')" = 1 ] || fail "renewed more than once"

# Refused again and again is an error, and so is a refusal by the Hub.
hub_faults '{"fault": "expired", "route": "cdn"}'
hub_forget
expect_fail 'Permission denied' cat mnt/other.bin
[ "$(hub_asked 'route=resolve')" -le 4 ] && [ "$(hub_asked)" -le 20 ] || fail "a storm of $(hub_asked) requests"
hub_faults '{"fault": "status", "route": "resolve", "status": 403}'
rm -rf cache2
expect_fail 'refuses' larder cat -o "cache=$T/cache2" hf://acme/made:other.bin
[ "$(hub_asked HEAD)" = 0 ] || fail "asked with HEAD"
hub_faults
wait_for 30 cmp tree/other.bin mnt/other.bin
