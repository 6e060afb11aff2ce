#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The harness itself: a failing test leaves no mount, no process and no
# directory behind, and expect_fail and requires say what they should.
. "${top_srcdir:-.}/tests/lib.sh"

# victim BODY: a test of its own; its output in $T/said.
victim() {
	printf '. "%s/tests/lib.sh"\necho "$T" > "%s"/where\n%s\n' \
		"$top_srcdir" "$T" "$1" > victim.sh
	status=0
	env -u LARDER_TEST TMPDIR="$T/home" bash victim.sh > said 2>&1 ||
		status=$?
	where=$(cat where)
	[ ! -e "$where" ] || fail "left $where: $(cat said)"
}

victim 'true'
[ $status = 0 ] || fail "passed with $status: $(cat said)"
victim 'skip for a reason'
[ $status = 77 ] || fail "skipped with $status"
victim 'false'
[ $status = 1 ] || fail "failed with $status"
grep -q "line 3: 'false' exited 1" said || fail "$(cat said)"
victim 'expect_fail "No such" ls /nonexistent; expect_fail x true'
[ $status = 1 ] || fail "expect_fail took success: $status"
grep -q 'succeeded: true' said || fail "$(cat said)"
victim 'expect_fail "something else" ls /nonexistent'
[ $status = 1 ] || fail "expect_fail took another text"
victim 'requires no-such-command'
[ $status = 77 ] || fail "went on without no-such-command"
victim 'REQUIRE=fuse,no-such-command; requires no-such-command'
[ $status = 1 ] || fail "skipped what REQUIRE names"

# A daemon that ignores SIGTERM, in a session of its own.
victim 'setsid bash -c "trap \"\" TERM; echo \$\$ > '"$T"'/pid; sleep 600" &
	wait_for 5 test -s '"$T"'/pid; fail now'
[ $status = 1 ] || fail "ended with $status"
lib_has_ended "$(cat pid)" || fail "left a process"

# A loop in the background is a subshell, which was never executed.
victim '(while sleep 0.1; do :; done) & echo $! > '"$T"'/pid; fail now'
[ $status = 1 ] || fail "ended with $status"
lib_has_ended "$(cat pid)" || fail "left a loop in the background"

if [ "$(id -u)" = 0 ] && unshare -m true 2> /dev/null; then
	victim 'mkdir "a b" c; mount --bind c "a b"; mkdir c/d
		mount -t tmpfs none c/d; cd c/d; fail now'
	[ $status = 1 ] || fail "ended with $status"
	! grep -qF "$where" /proc/self/mountinfo || fail "left a mount"
fi

if command -v nginx > /dev/null; then
	victim 'mkdir r; echo hello > r/f; start_nginx r; start_nginx r
		exec 3<> "/dev/tcp/127.0.0.1/$nginx_port"
		printf "GET /f HTTP/1.0\r\nRange: bytes=1-2\r\n\r\n" >&3
		tail -n 1 <&3; echo; cat "$nginx_log"; echo $nginx_pid > '"$T"'/pid
		fail now'
	grep -q '^el' said || fail "nginx served no range: $(cat said)"
	grep -q '^GET /f HTTP/1.0 206 2 bytes=1-2$' said ||
		fail "no log line: $(cat said)"
	lib_has_ended "$(cat pid)" || fail "left nginx"
fi

# What a program leaves below TMPDIR goes though it aborts.
printf '#!/bin/sh\nmktemp -d\nkill -ABRT $$\n' > aborts
chmod +x aborts
status=0
TMPDIR=$T bash "$top_srcdir/tests/run-test" ./aborts > said || status=$?
[ $status != 0 ] || fail "an abort is no failure"
[ -s said ] || fail "the program made no directory"
[ ! -e "$(cat said)" ] || fail "left $(cat said)"
