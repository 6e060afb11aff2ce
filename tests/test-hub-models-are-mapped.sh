#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# What reads models reads them from a mount: safetensors maps a cold file,
# several processes at once, and finds the tensors of a local copy.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr clients

start_hub --fixture model
mkdir local
for name in config.json model.safetensors.index.json \
	model-0000{1,2}-of-00002.safetensors; do
	curl -sSL -o local/$name "$hub_url/acme/tiny/resolve/main/$name"
done
mount_hub hf://acme/tiny mnt
cat > tensors.py <<'PYTHON'
import hashlib
import json
import sys

from safetensors import safe_open

with open(sys.argv[1] + "/model.safetensors.index.json") as file:
    where = json.load(file)["weight_map"]
names = sorted(where)
for name in names[int(sys.argv[2]):] + names[:int(sys.argv[2])]:
    with safe_open(sys.argv[1] + "/" + where[name], framework="np") as file:
        data = file.get_tensor(name).tobytes()
    print(name, len(data), hashlib.sha256(data).hexdigest())
PYTHON
python=$hub_clients/python/bin/python
$python tensors.py local 0 | sort > wanted
[ "$(wc -l < wanted)" = 24 ]
pids=()
for i in 0 6 12 18; do
	$python tensors.py mnt $i > "got.$i" &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid" || fail "a reader failed"
done
for i in 0 6 12 18; do
	sort "got.$i" | cmp - wanted
done
[ "$(hub_asked 'safetensors.*route=resolve')" -le 6 ] ||
	fail "resolved $(hub_asked 'safetensors.*route=resolve') times"
