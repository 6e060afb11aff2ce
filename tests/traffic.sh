# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced after lib.sh: what a mirror was asked and what it sent, from the logs
# of nginx and of httpd; telling httpd to fail; files to publish.

stamped() { "$top_builddir/tests/stamped" "$@"; }
random_reads() { "$top_builddir/tests/random-reads" "$@"; }
make_tree() { python3 "$top_srcdir/tests/make-tree.py" "$@"; }
compare_trees() { python3 "$top_srcdir/tests/compare-trees.py" "$@"; }

# random_file BYTES FILE, and text that compresses to about a third.
random_file() {
	head -c "$1" /dev/urandom > "$2"
}

text_file() {
	python3 - "$1" "$2" <<-'PYTHON'
		import random, sys
		left, r = int(sys.argv[1]), random.Random(sys.argv[2])
		words = ["%x" % r.getrandbits(28) for _ in range(5000)]
		with open(sys.argv[2], "w") as f:
		    while left > 0:
		        text = " ".join(r.choices(words, k=20000))[:left - 1] + "\n"
		        f.write(text)
		        left -= len(text)
	PYTHON
}

# Bytes of a file or below a directory.
bytes_of() {
	find "$@" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }'
}

# Milliseconds of a monotonic clock.
now_ms() {
	awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime
}

# The same, without the time that somebody had to wait for a processor or a disk:
# a machine that has other things to do is not held to a limit, an idle one that
# waits for an answer is.
own_ms() {
	{
		cat /proc/pressure/cpu /proc/pressure/io /proc/pressure/memory \
			2> /dev/null || true
		cat /proc/uptime
	} | awk '/^some/ { split($5, stalled, "="); sum += stalled[2] / 1000 }
		/^[0-9]/ { printf "%d\n", $1 * 1000 - sum }'
}

# within MILLISECONDS COMMAND...: it succeeds, and takes no longer.
within() {
	local limit=$1 start took
	shift
	start=$(own_ms)
	"$@" || fail "failed: $*"
	took=$(($(own_ms) - start))
	[ "$took" -le "$limit" ] || fail "took $took ms, not $limit: $*"
}

# failing_read FILE: read it; what it said goes to "said", the milliseconds it
# took to "took". For the background: the caller may be held up.
failing_read() {
	local start status=0
	start=$(own_ms)
	cat "$1" > /dev/null 2> said || status=$?
	echo $(($(own_ms) - start)) > took
	[ $status -ne 0 ] || echo "read something" >> said
}

# ---- nginx: "GET /packs/... HTTP/1.1 206 100 bytes=0-99"

# A line is written after its last byte was sent: wait until all of them are
# there, whichever worker is late.
nginx_settle() {
	local before after=-1
	until [ "$after" = "${before-}" ]; do
		before=$(stat -c %s "$nginx_log")
		sleep 0.2
		after=$(stat -c %s "$nginx_log")
	done
}

# From now on only what comes later counts.
nginx_forget() {
	nginx_settle
	: > "$nginx_log"
}

# How many requests for paths of this regular expression; bytes sent for them.
nginx_requests() {
	nginx_settle
	grep -Ec "^GET /${1-}" "$nginx_log" || true
}

nginx_bytes() {
	nginx_settle
	grep -E "^GET /${1-}" "$nginx_log" |
		awk '{ sum += $5 } END { print sum + 0 }'
}

# No byte of a pack was asked for twice.
nginx_sent_once() {
	nginx_settle
	awk '/^GET \/packs\// { split($6, range, /[=-]/)
		print $2, range[2], range[3] }' "$nginx_log" |
		sort -k1,1 -k2,2n | awk '
		$1 == path && $2 <= end { print "twice: " $0; twice = 1 }
		{ path = $1; end = $3 }
		END { exit twice }'
}

# ---- httpd: lines of JSON

httpd_control() {
	curl -sf "$httpd_url/_control?$1" > /dev/null || fail "httpd: $1"
}

httpd_forget() {
	httpd_control sync
	: > "$httpd_log"
}

# httpd_log_sum EXPRESSION [PREFIX]: of the entries whose path begins so; r is
# the entry.
httpd_log_sum() {
	httpd_control sync
	python3 -c '
import json, sys
log = [json.loads(line) for line in open(sys.argv[1])]
print(sum(eval(sys.argv[2]) for r in log if r["path"].startswith(sys.argv[3])))
' "$httpd_log" "$1" "${2-/}"
}

httpd_requests() { httpd_log_sum 1 "${1-/}"; }
httpd_bytes() { httpd_log_sum 'r["bytes"]' "${1-/}"; }

# ---- reading

# expect_error NAMES COMMAND...: it fails with one of these errors.
expect_errno() {
	local names=$1 said
	shift
	said=$(timeout 60 "$@" 2>&1 > /dev/null) && fail "succeeded: $*"
	grep -Eq "$names" <<< "$said" || fail "said '$said', not $names: $*"
}
EIO='Input/output error'
EACCES='Permission denied'
ETIMEDOUT='Connection timed out'
: "$EIO$EACCES$ETIMEDOUT"

larder_error() {
	getfattr --only-values -n user.larder.error "$1" 2> /dev/null
}

cached_bytes() {
	getfattr --only-values -n user.larder.cached "$1"
}
