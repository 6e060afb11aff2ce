#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A token goes to the endpoint and nowhere else, wherever redirects and Links
# lead, and it is never said.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/hub-log.sh"
requires fuse root net python3 curl getfattr

export HF_TOKEN=hf_verySecretToken
start_hub --fixture model --fixture img2dataset --token $HF_TOKEN page=500
shard=model-00001-of-00002.safetensors
mount_hub hf://acme/tiny mnt timeout=3s,debug=all

# Relative redirects stay, and keep it.
hub_set '{"small": "cache"}'
cat mnt/README.md > /dev/null
[ "$(hub_asked 'auth=yes route=resolve-cache')" -ge 1 ] || fail "dropped it"
cat mnt/$shard > /dev/null
[ "$(hub_asked '^cdn')" -ge 1 ] || fail "nothing came from the CDN"

for location in file:///etc/hostname ftp://127.0.0.1/x 'http://user:pw@127.0.0.1/x' \
	'http://' "$hub_other/acme/tiny/resolve/main/onnx/model.onnx"; do
	hub_faults "{\"fault\": \"location\", \"route\": \"resolve\", \"location\": \"$location\"}"
	umount_dataset mnt
	rm -rf cache
	hub_faults
	mount_hub hf://acme/tiny mnt timeout=3s
	hub_faults "{\"fault\": \"location\", \"route\": \"resolve\", \"location\": \"$location\"}"
	! cat mnt/tokenizer.json > /dev/null 2> said || fail "read $location"
	! cat mnt/$shard > /dev/null 2> said || fail "read $location"
done
hub_faults '{"fault": "chain", "route": "resolve", "count": 20}'
! cat mnt/tokenizer.json > /dev/null 2> said || fail "followed 20 redirects"
hub_faults '{"fault": "mirror", "route": "resolve", "match": "onnx"}'
cat mnt/onnx/model.onnx > /dev/null || true
hub_faults

# A Link on another host is followed here.
for link in other relative reorder; do
	hub_faults "{\"fault\": \"link\", \"route\": \"tree\", \"link\": \"$link\"}"
	rm -rf cache2
	before=$(hub_asked '^other')
	larder ls -R -o "cache=$T/cache2" hf://datasets/acme/laion-images > list
	[ "$(wc -l < list)" = 6001 ] || fail "$link: $(wc -l < list) names"
	[ "$(hub_asked '^other')" = "$before" ] || fail "$link: led away"
done
for link in loop; do
	hub_faults "{\"fault\": \"link\", \"route\": \"tree\", \"link\": \"$link\"}"
	rm -rf cache2
	expect_fail 'circle' larder ls -o "cache=$T/cache2" \
		hf://datasets/acme/laion-images
done
[ "$(hub_asked '^(cdn|other) .*auth=yes')" = 0 ] || fail "it has left home"
[ "$(hub_asked '^hub .*auth=no')" = 0 ] || fail "not sent where it belongs"
no_token $HF_TOKEN
