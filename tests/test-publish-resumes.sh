#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# Killed with 90 % of the bytes written, a publish compresses and stores less
# than 15 % the second time, and leaves no temporary file.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires python3

mkdir tree
for i in {0..11}; do
	text_file 4000000 "tree/$i"
done
# A high level, so that there is time to hit the moment.
larder publish -n set --level 12 tree whole --json > whole.json 2> said ||
	{ cat said >&2; fail "cannot publish"; }

cat > kill-at.py <<'PY'
import json, os, signal, subprocess, sys, time
total = json.load(open("whole.json"))["stored_bytes"]
run = subprocess.Popen(["larder", "publish", "-n", "set", "--level", "12",
                        "tree", "mirror"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
def stored():
    size = 0
    for top, _, names in os.walk("mirror/packs"):
        for name in names:
            try:
                size += os.stat(os.path.join(top, name)).st_size
            except FileNotFoundError:
                pass
    return size
while run.poll() is None:
    if stored() >= 0.9 * total:
        run.kill()
        run.wait()
        print(stored() / total)
        sys.exit(0)
    time.sleep(0.002)
sys.exit("the publish ended before it was killed")
PY
at=$(python3 kill-at.py)
[ ! -e mirror/heads ] || fail "a head before the end"
ls mirror/packs/.tmp-* > /dev/null 2>&1 || echo "nothing to salvage this time"

larder publish -n set --level 12 tree mirror --json > second.json 2> said ||
	{ cat said >&2; fail "cannot resume"; }
python3 - "$at" <<'PY'
import json, sys
whole, second = json.load(open("whole.json")), json.load(open("second.json"))
share = second["stored_bytes"] / whole["stored_bytes"]
print(f"killed at {float(sys.argv[1]):.1%}, stored again {share:.1%}, "
      f"salvaged {second['salvaged_bytes']} bytes")
assert second["snapshot"] == whole["snapshot"]
assert share < 0.15, share
PY
[ -z "$(find mirror -name '.tmp-*')" ] || fail "temporary files are left"
larder check mirror > check || { cat check; fail "the mirror is bad"; }
