#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# What larder is tested against is the Hub to those who know it: Python's
# huggingface_hub and JavaScript's @huggingface/hub list, resolve, download and
# are refused as by the real one, whichever way it answers.
. "${top_srcdir:-.}/tests/lib.sh"
requires net python3 curl clients

start_hub --fixture model --fixture openwebtext --fixture access \
	--fixture img2dataset --token hf_goodToken
export HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_XET=1
export HF_HUB_DISABLE_PROGRESS_BARS=1 PYTHONDONTWRITEBYTECODE=1

both() {
	hub_control set "$1" > /dev/null
	HF_HOME=$T/home/$2 "$hub_clients/python/bin/python" \
		"$top_srcdir/tests/hub/client.py" ||
		fail "huggingface_hub is not satisfied: $1"
	node "$top_srcdir/tests/hub/client.mjs" "$hub_clients" ||
		fail "@huggingface/hub is not satisfied: $1"
}

both '{"small": "direct", "lfs": "cdn", "sign": "expires"}' direct
both '{"small": "cache", "lfs": "xet", "sign": "amz", "page": 100}' cache
[ "$(curl -sS "$hub_url/_/counters" | jq '.leaks // 0')" = 0 ] ||
	fail "a client gave its token to the CDN"
grep -q 'route=resolve-cache' "$hub_log" || fail "nobody took the cache route"
! grep -q '^other ' "$hub_log" || fail "somebody was led to another host"
