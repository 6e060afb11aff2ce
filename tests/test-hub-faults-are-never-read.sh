#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Lying ranges, pages instead of data, broken connections: right bytes or an
# error. A byte that was flipped on the way cannot be told before the file is
# whole: then it is dropped, and the file is never called complete.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

mkdir tree
random_file 9000001 tree/model.bin
random_file 200001 tree/small.json
start_hub --repo "model:acme/made=$T/tree"
again() {
	! mountpoint -q mnt || umount_dataset mnt
	rm -rf cache
	drop_caches
	mount_hub hf://acme/made mnt "${1-timeout=20s}"
}

# For a while.
for fault in reset cut short page wrong-range wrong-total bogus-416 \
	invalid-range gzip no-length ignore-range; do
	hub_faults
	again
	hub_faults "{\"fault\": \"$fault\", \"route\": \"cdn\", \"times\": 1, \"after\": 100000}" \
		"{\"fault\": \"$fault\", \"route\": \"resolve\", \"match\": \"small\", \"times\": 1, \"after\": 1000}"
	for file in model.bin small.json; do
		wait_for 30 cmp tree/$file mnt/$file
	done
done 2> /dev/null

# For ever.
for fault in page wrong-range wrong-total bogus-416 invalid-range gzip; do
	hub_faults
	again timeout=3s
	hub_faults "{\"fault\": \"$fault\", \"route\": \"cdn\"}" \
		"{\"fault\": \"$fault\", \"route\": \"resolve\", \"match\": \"small\"}"
	for file in model.bin small.json; do
		! cat mnt/$file > out 2> said || fail "$fault: $file was read"
		head -c "$(stat -c %s out)" tree/$file | cmp - out ||
			fail "$fault: wrong bytes of $file"
		[ "$(stat -c %s mnt/$file)" = "$(stat -c %s tree/$file)" ]
	done
done

# Where it sends us lies another file: nothing is read from there.
for lie in '"size": 9000002' "\"etag\": \"$(printf %064d 0)\""; do
	hub_faults
	again timeout=3s
	hub_faults "{\"fault\": \"lie\", \"route\": \"resolve\", \"match\": \"model\", $lie}"
	! cat mnt/model.bin > out 2> said || fail "$lie: was read"
	[ ! -s out ] || fail "$lie: bytes of another file"
	getfattr --only-values -n user.larder.error mnt/model.bin |
		grep -qE 'the Hub has (a file of another size|another file) there' ||
		fail "$lie: $(getfattr -d -m user.larder mnt/model.bin)"
	hub_faults
	wait_for 30 cmp tree/model.bin mnt/model.bin 2> /dev/null
done

# A flipped byte, once: read, unverified, dropped, right.
hub_faults
again
hub_faults '{"fault": "flip", "route": "cdn", "offset": 5000000, "times": 4}'
cat mnt/model.bin > /dev/null
wait_for 60 eval '! has_state mnt/model.bin unverified'
hub_faults
wait_for 30 cmp tree/model.bin mnt/model.bin
wait_for 60 has_state mnt/model.bin complete

# Always: never complete, and soon no more than an error.
hub_faults
again
hub_faults '{"fault": "flip", "route": "cdn", "offset": 5000000}'
is_refused() {
	drop_caches
	! cat mnt/model.bin > /dev/null 2> said
}
wait_for 60 is_refused
grep -q 'Input/output error' said || fail "$(cat said)"
getfattr --only-values -n user.larder.error mnt/model.bin | grep -q digest
! has_state mnt/model.bin complete || fail "complete"
cmp tree/small.json mnt/small.json
