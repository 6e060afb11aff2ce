#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A repository of the Hub is told by the commit that the Hub knows it by, and by what
# of it was asked for: just opened, from the cache, and while the Hub is away. A
# section of views has its line before anything of it was opened.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

start_hub --fixture model
cat > larder.conf <<CONF
[larder]
cache = $T/cache
[hf]
source = hf://
[old]
source = hf://acme/tiny@v1.0
CONF
mkdir mnt
told() {
	larder status > said || fail "status: $(cat said)"
	grep -q "$@" said || fail "no '$*' in: $(cat said)"
}
larder mount -c larder.conf mnt > /dev/null
told '^  hf  *-  .* cold$'
told '^  old  *-  .* cold$'
[ -s mnt/hf/hub/models--acme--tiny/refs/main ]
commit=$(cat mnt/hf/hub/models--acme--tiny/refs/main)
old=$(cat mnt/hf/hub/models--acme--tiny/refs/v1.0)
ls "mnt/hf/models/acme/tiny@$old" mnt/old > /dev/null
told "^  hf/models/acme/tiny  *${commit:0:12} (main)  .* ok$"
told "^  hf/models/acme/tiny@v1.0  *${old:0:12} (v1.0)  .* ok$"
told "^  hf/models/acme/tiny@$old  *${old:0:12}  .* ok$"
told "^  old  *${old:0:12} (v1.0)  .* ok$"
! grep -q '^  hf  ' said || fail "the section though there is more: $(cat said)"
larder status --json | python3 -c '
import json, sys
mount, = json.load(sys.stdin)["mounts"]
sets = {d["name"]: d for d in mount["datasets"]}
assert sets["old"]["commit"] == sys.argv[1], sets
assert sets["old"]["revision"] == "v1.0", sets
assert sets["old"]["snapshot"].startswith("sha256:"), sets' "$old"
umount_dataset mnt

# Nobody is asked what is in the cache; the Hub goes away.
mount_hub hf:// mnt
told '^  nothing of it was opened yet$'
umount_dataset mnt
hub_forget
mount_hub hf://acme/tiny mnt
told "^  ${commit:0:12} (main)  "
[ "$(hub_asked)" = 0 ] || fail "asked: $(cat "$hub_log")"
umount_dataset mnt
hub_faults '{"fault": "status", "status": 503}'
mount_hub hf://acme/tiny mnt refresh=1h
told '  stale  '
told "^  ${commit:0:12} (main)  "
umount_dataset mnt
