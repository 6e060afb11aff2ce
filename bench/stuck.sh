#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What 500 readers that wait for a silent mirror cost those of another dataset
# of the same mount: the same reads beside them and alone, in turn. Cold files
# come from nginx, each is read cold once.
#
#   bench/stuck.sh [ROUNDS [READERS]]
. "$(dirname "$0")/lib.sh"

rounds=${1:-5}
readers=${2:-500}
bytes=$((128 << 20))

cd "$work"
mkdir -p mirrors stuck fine mnt
for i in $(seq "$readers"); do head -c 200000 /dev/urandom > "stuck/$i"; done
for i in $(seq $((2 * rounds))) warm; do head -c $bytes /dev/urandom > "fine/$i"; done
"$LARDER" keygen key 2> /dev/null
"$LARDER" publish -k key -n stuck stuck mirrors/stuck > /dev/null 2>&1
"$LARDER" publish -k key -n fine fine mirrors/fine > /dev/null 2>&1

# Heads and objects come, packs never: a port where nobody accepts.
python3 -c '
import socket, sys, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(4096)
print(s.getsockname()[1], flush=True)
time.sleep(3600)
' > silent.port &
silent_pid=$!
trap 'kill "$silent_pid" 2> /dev/null; bench_cleanup' EXIT
until [ -s silent.port ]; do sleep 0.1; done
nginx_extra="location /stuck/packs/ {
	proxy_pass http://127.0.0.1:$(cat silent.port)/; proxy_read_timeout 3600s; }"
start_nginx "$work/mirrors"
cat > larder.conf <<CONF
[larder]
cache = $work/cache
key = $work/key.pub
timeout = 3600s
[stuck]
mirror = $url/stuck
[fine]
mirror = $url/fine
CONF
"$LARDER" mount -c larder.conf mnt
ls mnt/stuck > /dev/null
cat mnt/fine/warm > /dev/null

stick() {
	pids=()
	for i in $(seq "$readers"); do
		cat "mnt/stuck/$i" > /dev/null 2>&1 &
		pids+=($!)
	done
	sleep 2
}
unstick() {
	kill -9 "${pids[@]}"
	wait "${pids[@]}" 2> /dev/null || true
}
measure() { # KIND: warm and cold seconds are added to its lists
	drop_caches
	warm[$1]+=" $(seconds cat mnt/fine/warm)"
	next=$((next + 1))
	cold[$1]+=" $(seconds cat "mnt/fine/$next")"
	list[$1]+=" $(seconds ls -lR mnt/stuck)"
}

declare -A warm cold list
next=0
for _ in $(seq "$rounds"); do
	measure alone
	stick
	measure beside
	unstick
done
for kind in warm cold list; do
	declare -n of=$kind
	# shellcheck disable=SC2086
	row "$kind, $readers stuck" "$(median ${of[beside]})" alone \
		"$(median ${of[alone]})"
done
