#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The server that the Hub sends us to may be down while the Hub is not: what
# lies on the Hub itself is read on, nothing is called offline, the error names
# that server, and once the Hub sends us elsewhere the file is read.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

mkdir tree
random_file 3000001 tree/model.bin
echo '{}' > tree/config.json
echo hello > tree/README.md
start_hub --repo "model:acme/made=$T/tree" --fixture model
hub_faults '{"fault": "location", "route": "resolve", "match": "model.bin",
	"location": "http://127.0.0.1:1/model.bin?Expires=4000000000"}'
mkdir mnt
larder mount -f -o "cache=$T/cache,timeout=20s" hf:// mnt > mount.out 2> log &
wait_for 30 test -d mnt/models
for i in 1 2 3 4; do
	cat mnt/models/acme/made/model.bin > /dev/null 2> said &&
		fail "read from nowhere"
	cat mnt/models/acme/tiny/config.json > /dev/null
done
grep -q 'Input/output error' said || fail "$(cat said)"
getfattr --only-values -n user.larder.error mnt/models/acme/made/model.bin \
	> told
grep -q '127.0.0.1:1' told || fail "names not the server: $(cat told)"
cmp tree/README.md mnt/models/acme/made/README.md
cmp tree/config.json mnt/models/acme/made/config.json
cat mnt/hub/models--acme--tiny/refs/v1.0 > /dev/null
! grep -q offline log || fail "$(cat log)"
[ "$(getfattr --only-values -n user.larder.state mnt/models/acme/made)" = ok ]
hub_faults
is_read() {
	cmp tree/model.bin mnt/models/acme/made/model.bin 2> /dev/null
}
wait_for 60 is_read
umount_dataset mnt
