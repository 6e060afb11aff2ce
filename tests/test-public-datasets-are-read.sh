#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# Repositories laid out like The Pile, LAION, COYO-700M, OpenWebText, Common
# Crawl and CogVLM-SFT are read through a mount by what people read them with:
# datasets, pyarrow, pandas, webdataset, zstd, tar, gzip, zip. The bytes are
# right, and of a zip of gigabytes only its ends and members are fetched.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr clients zstd

python=$hub_clients/python/bin/python
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
export HF_DATASETS_DISABLE_PROGRESS_BARS=1
$python "$top_srcdir/tests/hub/make-datasets.py" "$T/trees"
names=$(cd trees && echo */*)
repos=()
for name in $names; do
	repos+=(--repo "dataset:$name=$T/trees/$name")
done
start_hub "${repos[@]}" lfs=xet page=50
HF_HUB_OFFLINE=0 mount_hub hf:// mnt
$python "$top_srcdir/tests/hub/read-datasets.py" "$T/mnt/datasets" > said 2>&1 ||
	fail "$(cat said)"

far=mnt/datasets/THUDM/CogVLM-SFT-311K/CogVLM-SFT-311K-far.zip
[ "$(stat -c %s $far)" -gt $((4 << 30)) ]
digest=$(getfattr --only-values -n user.larder.sha256 $far)
fetched=$(awk -v "digest=$digest" '$1 == "cdn" && index($3, digest) {
	sum += $5 } END { print sum + 0 }' "$hub_log")
if [ "$fetched" -eq 0 ] || [ "$fetched" -gt $((32 << 20)) ]; then
	fail "fetched $fetched bytes of the zip"
fi

# To the programs, and byte by byte where nobody looked yet.
zstd -qt mnt/datasets/monology/*/train/*.zst mnt/datasets/monology/*/*.zst
for archive in mnt/datasets/Skylion007/openwebtext/subsets/*.tar; do
	tar -tf "$archive" > /dev/null
done
gzip -t mnt/datasets/commoncrawl/commoncrawl/crawl-data/*/segments/*/*/*.gz
diff -r --exclude='*-far.zip' trees mnt/datasets
