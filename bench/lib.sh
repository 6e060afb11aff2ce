# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# For the scripts of this directory. Each measures larder and something else
# on the same data in the same run and prints the ratio; none of them judges.
# LARDER names the program (default: the one in PATH).

set -euo pipefail
elsewhere= # a directory outside of $work that goes with it
LARDER=${LARDER:-larder}
work=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/larder-bench.XXXXXX")
nginx_pid=

bench_cleanup() {
	local status=$? dir
	while read -r dir; do
		umount -l "$dir" || true
	done < <(awk -v w="$work/" 'index($5, w) == 1 { print $5 }' \
		/proc/self/mountinfo | tac)
	[ -z "$nginx_pid" ] || kill "$nginx_pid" 2>/dev/null || true
	[ -z "${proxy_pid-}" ] || kill "$proxy_pid" 2>/dev/null || true
	[ -z "${hub_pid-}" ] || kill "$hub_pid" 2> /dev/null || true
	rm -rf "$work" ${elsewhere:+"$elsewhere"}
	exit $status
}
trap bench_cleanup EXIT

drop_caches() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
}

# warm_memory MIB: of free memory, so that a hypervisor which lends pages at
# their first use (ten times as slow as a copy) has lent them before, and not in
# the middle of whatever is measured first.
warm_memory() {
	head -c "$(($1 << 20))" /dev/zero > "$work/warming"
	rm "$work/warming"
}

now() { date +%s.%N; }

# seconds COMMAND...: wall time, output thrown away
seconds() {
	local start end
	start=$(now)
	"$@" > /dev/null
	end=$(now)
	awk -v a="$start" -v b="$end" 'BEGIN { printf "%.3f\n", b - a }'
}

# median NUMBER...
median() {
	printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 } END {
		print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# row NAME LARDER_SECONDS OTHER_NAME OTHER_SECONDS: ratio of times
row() {
	awk -v n="$1" -v a="$2" -v o="$3" -v b="$4" 'BEGIN {
		printf "%-28s larder %8.3f s   %-24s %8.3f s   time ratio %6.3f   speed ratio %6.3f\n",
			n, a, o, b, a / b, b / a }'
}

# text BYTES: words that compress about threefold, the same every time
text() {
	python3 -c '
import random, sys
r = random.Random(7)
words = ["".join(r.choices("etaoinshrdlucmfw", k=r.randint(2, 10))) for _ in range(20000)]
left = int(sys.argv[1])
while left > 0:
    line = (" ".join(r.choices(words, k=20000)) + "\n").encode()[:left]
    sys.stdout.buffer.write(line)
    left -= len(line)
' "$1"
}

# small_tree DIR COUNT: text files of a few KiB, a hundred a directory, the same every time
small_tree() {
	python3 - "$1" "$2" <<'P'
import os, random, sys
r = random.Random(3)
root, n = sys.argv[1], int(sys.argv[2])
words = ["".join(r.choices("etaoinshrdlucmfw", k=r.randint(2, 10))) for _ in range(5000)]
for i in range(n):
    d = os.path.join(root, "%03d" % (i // 100))
    os.makedirs(d, exist_ok=True)
    size = min(int(r.lognormvariate(8, 1.2)), 100000)
    data = (" ".join(r.choices(words, k=size // 6 + 1))).encode()[:size]
    open(os.path.join(d, "%06d.txt" % i), "wb").write(data)
P
}

# start_nginx ROOT: $url is set; $nginx_extra goes into its server
start_nginx() {
	local port
	mkdir -p "$work/nginx"
	for port in $(shuf -i 20000-30000 -n 20); do
		cat > "$work/nginx/nginx.conf" <<-CONF
			daemon off;
			user root;
			pid $work/nginx/pid;
			error_log $work/nginx/error.log;
			worker_processes 2;
			events { worker_connections 1024; }
			http {
				access_log off;
				sendfile on;
				tcp_nopush on;
				client_body_temp_path $work/nginx;
				proxy_temp_path $work/nginx;
				fastcgi_temp_path $work/nginx;
				uwsgi_temp_path $work/nginx;
				scgi_temp_path $work/nginx;
				server { listen 127.0.0.1:$port; root $1; autoindex on;
					${nginx_extra:-} }
			}
		CONF
		nginx -p "$work/nginx" -c nginx.conf 2> "$work/nginx/start.log" &
		nginx_pid=$!
		for _ in $(seq 50); do
			curl -so /dev/null "http://127.0.0.1:$port/" && break
			kill -0 "$nginx_pid" 2>/dev/null || break
			sleep 0.1
		done
		if kill -0 "$nginx_pid" 2>/dev/null; then
			url=http://127.0.0.1:$port
			return
		fi
	done
	cat "$work/nginx/start.log" >&2
	return 1
}

# memory_kib PID: RssAnon + RssShmem
memory_kib() {
	awk '/^Rss(Anon|Shmem):/ { sum += $2 } END { print sum }' "/proc/$1/status"
}

# daemon_of DIR: pid of the larder that serves it, by its command line
daemon_of() {
	local pid
	for pid in /proc/[0-9]*; do
		[ "$(readlink "$pid/exe" 2>/dev/null)" = "$(readlink -f "$(command -v "$LARDER")")" ] || continue
		tr '\0' ' ' < "$pid/cmdline" | grep -qF -- "$1" && basename "$pid" && return
	done
	return 1
}

# start_proxy ROUND-TRIP-MS [BYTES-PER-SECOND]: a slow link to nginx; $far_url
# is set. The one before is ended.
proxy_pid=
start_proxy() {
	[ -x "$work/delay-proxy" ] || ${CC:-cc} -O2 -pthread \
		-o "$work/delay-proxy" "$(dirname "${BASH_SOURCE[0]}")/delay-proxy.c"
	stop_proxy
	rm -f "$work/proxy-port"
	"$work/delay-proxy" "$work/proxy-port" "${url##*:}" "$@" &
	proxy_pid=$!
	until [ -s "$work/proxy-port" ]; do sleep 0.05; done
	far_url=http://127.0.0.1:$(cat "$work/proxy-port")
}

stop_proxy() {
	[ -z "$proxy_pid" ] || kill "$proxy_pid" 2> /dev/null || true
	proxy_pid=
}
