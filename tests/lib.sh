# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by every shell test:
#
#	. "${top_srcdir:-.}/tests/lib.sh"
#	requires fuse root nginx
#
# A test runs in an empty directory of its own, $T, with the built larder
# first in PATH, an empty configuration and a HOME of its own. However it
# ends, what it mounted is unmounted lazily, and what it started is killed:
# those processes carry LARDER_TEST=$T in their environment, no others are
# touched. Exit codes: 0 passed, 77 skipped, anything else failed.
#
# REQUIRE=fuse,root,net,nginx,moto turns a skip for one of these into a failure.
# TEST_UNDER is put before every larder: valgrind, whose words go into files,
# since a daemon has nobody to hear its exit code.
# KEEP=1 leaves $T behind.

set -euo pipefail

top_srcdir=$(cd "${top_srcdir:-$(dirname "${BASH_SOURCE[0]}")/..}" && pwd)
top_builddir=$(cd "${top_builddir:-$top_srcdir}" && pwd)
test_name=$(basename "$0" .sh)
# /proc shows the environment a process was started with, and a subshell the
# one of its shell: so that background loops carry the mark too, start anew.
if [ "${LARDER_TEST_PID-}" != $$ ]; then
	LARDER_TEST=$(mktemp -d "${TMPDIR:-/tmp}/larder-test.XXXXXX")
	export LARDER_TEST LARDER_TEST_PID=$$
	exec bash "$0" "$@"
fi
T=$LARDER_TEST
hub_clients=${LARDER_CLIENTS:-/opt/larder-clients}
cleanup_fns=()
nginx_pids=()

fail() {
	echo "$test_name: $*" >&2
	exit 1
}

# cleanup_fn COMMAND...: run it at the end, last one first.
cleanup_fn() {
	cleanup_fns+=("$(printf '%q ' "$@")")
}

# Mount points below $T, innermost first, unescaped.
own_mounts() {
	local target
	awk '{ print $5 }' /proc/self/mountinfo | while read -r target; do
		target=$(printf '%b' "${target//\\/\\0}")
		case $target in "$T"/*) printf '%s\n' "$target" ;; esac
	done | tac
}

# Processes this test left, whoever is their parent now.
own_processes() {
	local dir pid
	for dir in /proc/[0-9]*; do
		pid=${dir#/proc/}
		[ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ] || continue
		# No pipe: with pipefail, a reader that ends early fails it.
		grep -qzxF "LARDER_TEST=$T" "$dir/environ" 2> /dev/null ||
			continue
		[ "$(readlink "$dir/exe" 2> /dev/null)" ] || continue
		echo "$pid"
	done
}

end_processes() {
	local pid left try patience=10
	for pid in $(own_processes); do
		kill -TERM "$pid" 2> /dev/null || true
		kill -CONT "$pid" 2> /dev/null || true
	done
	[ -z "${TEST_UNDER-}" ] || patience=300
	for ((try = 0; try < patience; try++)); do
		left=$(own_processes)
		[ "$left" ] || return 0
		sleep 0.2
	done
	for pid in $left; do
		echo "$test_name: killing pid $pid, which ignored SIGTERM:" \
			"$(tr '\0' ' ' < "/proc/$pid/cmdline" || true)" >&2
		kill -KILL "$pid" 2> /dev/null || true
	done
	for ((try = 0; try < 50; try++)); do
		[ "$(own_processes)" ] || return 0
		sleep 0.1
	done
	echo "$test_name: cannot kill $(own_processes | tr '\n' ' ')" >&2
}

# Daemons have no terminal: sanitizers report into files; that of undefined
# behaviour knows stderr only, which mount_dataset keeps.
report_sanitizers() {
	local report status=0
	for report in "$T"/sanitizer.* "$T"/valgrind.* "$T"/daemon.*; do
		[ -s "$report" ] || continue
		case $report in
		*/daemon.*)
			grep -q 'runtime error: \|Sanitizer' "$report" ||
				continue ;;
		*/valgrind.*)
			# The rest is about system calls it does not know.
			grep -q '^==' "$report" || continue ;;
		esac
		cat "$report" >&2
		status=1
	done
	return $status
}

lib_cleanup() {
	local status=$? target i
	trap - EXIT ERR
	trap '' INT TERM HUP
	set +e +u
	cd /
	for ((i = ${#cleanup_fns[@]} - 1; i >= 0; i--)); do
		eval "${cleanup_fns[i]}"
	done
	while read -r target; do
		umount -l -- "$target"
	done < <(own_mounts)
	for i in "${nginx_pids[@]}"; do
		(stop_nginx "$i")
	done
	end_processes
	report_sanitizers || [ "$status" -ne 0 ] || status=1
	if [ -n "${KEEP:-}" ]; then
		echo "$test_name: kept $T" >&2
	elif [ -z "$(own_mounts)" ]; then
		chmod -R u+rwX "$T" 2> /dev/null
		rm -rf --one-file-system "$T"
	fi
	exit "$status"
}

lib_failed() {
	local status=$?
	echo "$test_name: line ${BASH_LINENO[0]}:" \
		"'$BASH_COMMAND' exited $status" >&2
}

trap lib_cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP
trap lib_failed ERR
set -E

mkdir "$T/bin" "$T/home"
lib_programs=$T/bin
[ -z "${TEST_UNDER-}" ] || lib_programs=$(mktemp -d "$T/under.XXXXXX")
for lib_variable in larder mount.larder; do
	ln -s "$top_builddir/larder" "$lib_programs/$lib_variable"
	[ -z "${TEST_UNDER-}" ] || {
		echo '#!/bin/sh'
		echo "exec $TEST_UNDER --log-file='$T/valgrind.%p'" \
			"'$lib_programs/$lib_variable' \"\$@\""
	} > "$T/bin/$lib_variable"
	chmod +x "$T/bin/$lib_variable"
done
: > "$T/larder.conf"
export PATH="$T/bin:$PATH:/usr/sbin:/sbin" HOME="$T/home"
export LC_ALL=C.UTF-8 TZ=UTC
unset "${!HF_@}" "${!HUGGING@}" "${!AWS_@}" LARDER_CONF NOTIFY_SOCKET
unset http_proxy https_proxy all_proxy no_proxy
unset HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
for lib_variable in ASAN UBSAN LSAN TSAN; do
	declare -x "${lib_variable}_OPTIONS=$(
		eval "echo \"\${${lib_variable}_OPTIONS-}\""):log_path=$T/sanitizer"
done
cd "$T"

skip() {
	echo "skipped: $*" >&2
	exit 77
}

missing() {
	case ",${REQUIRE-}," in
	*",$1,"*) fail "REQUIRE names '$1': $2" ;;
	*) skip "$2" ;;
	esac
}

# requires WORD...: fuse, root, net, loop (devices), clients (of the Hugging
# Face Hub), models (what computes with them), moto (an S3 server), or a command.
# contrib/install-packages puts these into $hub_clients.
requires() {
	local word
	for word in "$@"; do
		case $word in
		root)
			[ "$(id -u)" = 0 ] || missing root "not root" ;;
		fuse)
			{ : <> /dev/fuse; } 2> /dev/null ||
				missing fuse "/dev/fuse cannot be opened"
			[ "$(id -u)" = 0 ] || command -v fusermount3 \
				> /dev/null || missing fuse "no fusermount3" ;;
		net)
			# Nobody listens on port 1: refused is an answer.
			{ (: < /dev/tcp/127.0.0.1/1) 2>&1 || true; } |
				grep -q refused ||
				missing net "no loopback network" ;;
		loop)
			losetup -f > /dev/null 2>&1 ||
				missing loop "no loop device" ;;
		clients)
			[ -e "$hub_clients/complete" ] || missing clients \
				"no Hub clients: contrib/install-packages check" ;;
		models)
			[ -e "$hub_clients/models/complete" ] || missing models \
				"no models: contrib/install-packages check-clients" ;;
		moto)
			[ -e "$hub_clients/s3/complete" ] ||
				missing moto \
				"no S3 server: contrib/install-packages check" ;;
		*)
			command -v "$word" > /dev/null ||
				missing "$word" "no $word" ;;
		esac
	done
}

# expect_fail PATTERN COMMAND...: it must fail and say so (grep -E).
expect_fail() {
	local pattern=$1 said status=0
	shift
	said=$("$@" 2>&1 < /dev/null) || status=$?
	[ $status -ne 0 ] || fail "succeeded: $*"
	[ $status -lt 124 ] || fail "ended with $status: $*: $said"
	grep -Eq -- "$pattern" <<< "$said" ||
		fail "said not '$pattern' but '$said': $*"
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
	local end=$((SECONDS + $1 + 1)) limit=$1
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || fail "not within $limit s: $*"
		sleep 0.1
	done
}

# Ports below the ephemeral range; a port in use is refused by its server.
lib_random_port() {
	local low rest
	read -r low rest < /proc/sys/net/ipv4/ip_local_port_range 2> /dev/null ||
		low=32768
	: "$rest"
	[ "$low" -gt 20000 ] || low=32768
	echo $((10000 + (RANDOM << 15 | RANDOM) % (low - 10000)))
}

lib_nginx_conf() {
	local user=
	[ "$(id -u)" != 0 ] || user='user root;'
	cat <<-CONF
		$user
		worker_processes 2;
		pid nginx.pid;
		error_log error.log warn;
		events { worker_connections 4096; }
		http {
			log_format larder '\$request \$status \$body_bytes_sent \$http_range';
			access_log access.log larder;
			client_body_temp_path temp;
			proxy_temp_path temp;
			${nginx_http-}
			fastcgi_temp_path temp;
			uwsgi_temp_path temp;
			scgi_temp_path temp;
			sendfile on;
			tcp_nodelay on;
			keepalive_requests 1000000;
			server {
				listen 127.0.0.1:$2 ${nginx_listen-};
				${nginx_server-}
				location / { root "$1"; $3 }
			}
		}
	CONF
}

# start_nginx ROOT [DIRECTIVES]: serve ROOT on loopback. Sets nginx_url,
# nginx_pid, nginx_port and nginx_log ("GET /x HTTP/1.1 206 100
# bytes=0-99"); DIRECTIVES go into the location ("limit_rate 1m;"), those in
# nginx_http, nginx_server and nginx_listen ("ssl http2") where they say.
start_nginx() {
	local root prefix try
	root=$(cd "$1" && pwd)
	prefix=$(mktemp -d "$T/nginx.XXXXXX")
	mkdir "$prefix/temp"
	for ((try = 0; try < 20; try++)); do
		nginx_port=$(lib_random_port)
		lib_nginx_conf "$root" "$nginx_port" "${2-}" > "$prefix/conf"
		# Another test's server, or ours: try the next port.
		(: < "/dev/tcp/127.0.0.1/$nginx_port") 2> /dev/null && continue
		nginx -p "$prefix/" -e error.log -c conf \
			2> "$prefix/start.log" && break
		grep -q 'Address already in use' "$prefix/start.log" ||
			{ cat "$prefix/start.log" >&2; fail "no nginx"; }
	done
	[ $try -lt 20 ] || fail "nginx found no free port"
	nginx_log=$prefix/access.log
	nginx_url=http://127.0.0.1:$nginx_port
	wait_for 60 test -s "$prefix/nginx.pid"
	nginx_pid=$(cat "$prefix/nginx.pid")
	nginx_pids+=("$nginx_pid")
}

# stop_nginx [PID]: at once, its children as well. The pid is checked: it
# may be somebody else's by now.
stop_nginx() {
	local pid=${1:-$nginx_pid} children
	case $(readlink "/proc/$pid/exe") in */nginx*) ;; *) return 0 ;; esac
	children=$(cat "/proc/$pid/task/$pid/children" 2> /dev/null || true)
	# shellcheck disable=SC2086 # a list of pids
	kill -CONT "$pid" $children 2> /dev/null || true
	kill -TERM "$pid" 2> /dev/null || true
	wait_for 60 lib_has_ended "$pid"
}

# A zombie has ended: who should reap it is not ours to say.
lib_has_ended() {
	local state
	state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" \
		2> /dev/null) || return 0
	case $state in Z* | X* | '') return 0 ;; esac
	return 1
}

# start_httpd ROOT [OPTION...]: the server that fails on demand
# (tests/httpd.c). Sets httpd_url, httpd_pid and httpd_log.
start_httpd() {
	local root=$1 prefix
	shift
	prefix=$(mktemp -d "$T/httpd.XXXXXX")
	"$top_builddir/tests/httpd" --port-file "$prefix/port" \
		--log "$prefix/log" "$@" "$root" &
	httpd_pid=$!
	httpd_log=$prefix/log
	wait_for 60 test -s "$prefix/port"
	httpd_url=http://127.0.0.1:$(cat "$prefix/port")
}

# start_hub [OPTION...]: the imitated Hugging Face Hub (tests/hub/hub.py). Sets
# hub_url, hub_cdn, hub_other, hub_pid and hub_log, and HF_ENDPOINT for all
# that follows.
start_hub() {
	local dir
	dir=$(mktemp -d "$T/hub.XXXXXX")
	PYTHONDONTWRITEBYTECODE=1 python3 "$top_srcdir/tests/hub/hub.py" \
		--dir "$dir" "$@" &
	hub_pid=$!
	hub_log=$dir/log
	wait_for 60 test -s "$dir/ports"
	{
		read -r hub_url
		read -r hub_cdn
		read -r hub_other
	} < "$dir/ports"
	export HF_ENDPOINT=$hub_url
}

# hub_control WORD JSON: set, faults, push, repo (see hub.py).
hub_control() {
	curl -sS --fail-with-body --noproxy '*' "$hub_url/_/$1" -d "$2" ||
		fail "hub: $1 $2"
}

# start_s3 [OPTION...]: an S3 server that checks signatures
# (tests/s3-server.py) and knows the keys "test-id:test/secret+key". Sets
# s3_endpoint and s3_log ("GET /bucket/key 200 test-id bytes=0-99").
start_s3() {
	local prefix
	prefix=$(mktemp -d "$T/s3.XXXXXX")
	"$hub_clients/s3/bin/python" "$top_srcdir/tests/s3-server.py" \
		--port-file "$prefix/port" --log "$prefix/log" \
		--keys test-id:test/secret+key "$@" &
	s3_log=$prefix/log
	wait_for 60 test -s "$prefix/port"
	s3_endpoint=http://127.0.0.1:$(cat "$prefix/port")
}

# s3_keys FILE [ID [SECRET [TOKEN]]]: as of AWS.
s3_keys() {
	printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' \
		"${2:-test-id}" "${3:-test/secret+key}" > "$1"
	[ -z "${4-}" ] || printf 'aws_session_token=%s\n' "$4" >> "$1"
}

# The key that publish_tree signs with and mount_dataset trusts.
test_key() {
	[ -e "$T/test.key" ] || larder keygen "$T/test.key" > /dev/null
}

# publish_tree TREE MIRROR NAME [OPTION...]
publish_tree() {
	local tree=$1 mirror=$2 name=$3
	shift 3
	test_key
	larder publish -n "$name" -k "$T/test.key" "$@" "$tree" "$mirror" \
		> "$T/publish.out" 2> "$T/publish.err" ||
		{ cat "$T/publish.err" >&2; fail "cannot publish $tree"; }
}

# mount_dataset SOURCE DIR [OPTIONS [ARGUMENT...]]: with this test's cache
# and key unless OPTIONS ("a=b,c") say otherwise. What it says is in mount.err.
mount_dataset() {
	local source=$1 dir=$2 options=${3-} said
	shift 2
	[ $# -eq 0 ] || shift
	test_key
	mkdir -p "$dir"
	case ",$options" in *,cache=*) ;; *) options+=",cache=$T/cache" ;; esac
	case ",$options" in *,key=* | *,insecure*) ;;
	*) options+=",key=$T/test.key.pub" ;; esac
	said=$(mktemp "$T/daemon.XXXXXX")
	ln -sfn "$said" "$T/mount.err"
	larder mount -c "$T/larder.conf" -o "${options#,}" "$@" "$source" \
		"$dir" > "$T/mount.out" 2> "$said" ||
		{ cat "$said" >&2; fail "cannot mount $source"; }
}

umount_dataset() {
	larder umount "$1" || fail "cannot unmount $1"
}

# drop_caches: what the kernel keeps of files, so that larder is asked.
drop_caches() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
}
