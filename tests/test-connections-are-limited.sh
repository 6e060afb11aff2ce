#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# connections: one server is never asked more at a time, however many readers wait.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net curl

mkdir tree
random_file $((80 << 20)) tree/large
publish_tree tree mirror set
start_httpd mirror
port=$(printf '%04X' "${httpd_url##*:}")

# How many connections to the server there are, by the client's ends.
connected() {
	awk -v port=":$port" 'substr($3, 9) == port && $4 == "01"' /proc/net/tcp | wc -l
}
more_than() { [ "$(connected)" -gt "$1" ]; }
at_most() { [ "$(connected)" -le "$1" ]; }
read_block() { dd if=mnt/large bs=4096 count=1 skip="$1" of=/dev/null 2> /dev/null; }

# readers ROUND: eight that wait for bytes far apart
pids=()
readers() {
	local i
	# A few ranges, so that the server is known to give what is asked.
	httpd_control clear
	for i in 1 3 5 7 9; do
		wait_for 30 read_block $((i * 2000 + $1 * 300))
	done
	httpd_control 'add=silent&path=/packs/*'
	for i in 0 1 2 3 4 5 6 7; do
		# Killed itself, and no shell around it.
		(exec dd if=mnt/large bs=4096 count=1 skip=$((i * 2000 + 1000)) \
			of=/dev/null 2> /dev/null) &
		pids+=($!)
	done
}
end_readers() {
	kill -KILL "${pids[@]}" 2> /dev/null || true
	wait "${pids[@]}" 2> /dev/null || true
	pids=()
}
# reaches N: there are more, before the server is found to be silent
reaches() {
	local round poll
	for round in 0 1 2 3 4; do
		readers $round
		for ((poll = 0; poll < 40; poll++)); do
			! more_than "$1" || return 0
			sleep 0.1
		done
		end_readers
	done
	fail "never more than $1 connections"
}

printf 'connections = 3\n' >> larder.conf
mount_dataset "$httpd_url#set" mnt timeout=60s
reaches 2
for _ in 1 2 3 4 5 6 7 8 9 10; do
	at_most 3 || fail "$(connected) connections, of 3"
	sleep 0.1
done
end_readers
umount_dataset mnt
wait_for 20 at_most 0

# As many as there are readers.
printf 'connections = 16\n' > larder.conf
rm -rf cache
mount_dataset "$httpd_url#set" mnt timeout=60s
reaches 3
end_readers
umount_dataset mnt
expect_fail "connections" larder ls -o connections=0 "$httpd_url#set"
