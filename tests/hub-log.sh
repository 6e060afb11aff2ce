# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced after lib.sh by tests with an imitated Hub: what it was asked.

# hub_asked [PATTERN]: how many requests, of its log's lines that match.
hub_asked() {
	grep -cE -- "${1-.}" "$hub_log" || true
}

hub_forget() {
	: > "$hub_log"
}

# hub_faults [RULE...]: these from now on, and no others (see hub/faults.py).
hub_faults() {
	local IFS=,
	hub_control faults "[$*]" > /dev/null
}

hub_set() {
	hub_control set "$1" > /dev/null
}

# mount_hub SOURCE DIR [OPTIONS]
mount_hub() {
	mkdir -p "$2"
	larder mount -c "$T/larder.conf" -o "cache=$T/cache,${3-}" "$1" "$2" \
		> "$T/mount.out" 2> "$T/mount.err" ||
		{ cat "$T/mount.err" >&2; fail "cannot mount $1"; }
}

state_of() {
	getfattr --only-values -n user.larder.state "$1"
}

has_state() {
	[ "$(state_of "$1")" = "$2" ]
}

# all_complete DIR: reads all its files and waits until the cache has them.
all_complete() {
	local file
	while IFS= read -r -d '' file; do
		cat "$file" > /dev/null
		wait_for 120 has_state "$file" complete
	done < <(find "$1" -type f -print0)
}

# no_token TEXT: it is in no log, no command line and no message.
no_token() {
	local found pid
	for pid in $(own_processes); do
		[ "$pid" != "${hub_pid-}" ] || continue
		tr '\0' ' ' < "/proc/$pid/cmdline" > cmdline || continue
		! grep -qF -- "$1" cmdline || fail "token in $(cat cmdline)"
	done
	found=$(grep -rlF --include='*.err' --include='*.out' --include=log \
		--include='said*' -e "$1" "$T" || true)
	[ -z "$found" ] || fail "token in $found"
}

# git_blob FILE: what git and the Hub call its bytes.
git_blob() {
	{ printf 'blob %s\0' "$(stat -c %s "$1")"; cat "$1"; } |
		sha1sum | cut -d' ' -f1
}
