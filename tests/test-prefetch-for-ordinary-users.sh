#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# On root's mount an ordinary user has the serving process prefetch (larder-ioctl.h): with patterns, a
# dry run, progress and an exit status. Each user may queue so many; nobody sees or stops another's;
# what was used in the last hour is not given up for it.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net nginx python3 setpriv getfattr

mkdir -p tree/sub
for name in a b sub/c sub/d; do
	random_file $((4 << 20)) tree/$name
done
publish_tree tree mirror set
start_nginx mirror 'limit_rate 8m;'
mount_dataset "$nginx_url#set" mnt size=14M
chmod 755 "$T"
cp "$top_builddir/larder" larder.copy
user() {
	HOME=/nonexistent setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
prefetch() {
	user ./larder.copy prefetch -c larder.conf "$@"
}

prefetch --dry-run mnt/sub > out
grep -q "^would fetch 8.0 MiB of 8.0 MiB, 2 files of mnt/sub" out || fail "$(cat out)"
prefetch mnt/sub c 'nothing*' > out
grep -q "^complete: 4.0 MiB in 1 file of mnt/sub" out || fail "$(cat out)"
[ "$(getfattr -n user.larder.state --only-values mnt/sub/c 2> /dev/null)" != cold ] ||
	fail "it is not here"
[ ! -e /nonexistent ] || fail "a cache of the user's own was made"
expect_fail "no file matches 'nothing'" prefetch mnt nothing
expect_fail "is on a mount of root; only root can do that" prefetch --pin mnt/sub

# Room is not made by what was used lately; root may.
keeps() {
	drop_caches
	cat mnt/a mnt/b > /dev/null
	[ "$(cached_bytes mnt/a)$(cached_bytes mnt/b)" = 41943044194304 ]
}
wait_for 60 keeps
expect_fail "4.0 MiB are missing, but the cache has room for .* without dropping what was used lately" \
	prefetch mnt/sub/d

cat > ask.py <<'PY'
import errno, fcntl, os, struct, sys

def number(direction, nr, size):
    return direction << 30 | size << 16 | 0xD1 << 8 | nr

STATE = 8 + 4 + 4 + 9 * 8 + 256 + 256 + 8 + 8 * 128
PREFETCH, LOOK, STOP = number(3, 1, 4096), number(3, 2, STATE), number(1, 3, 8)

def fails(fd, request, data):
    try:
        fcntl.ioctl(fd, request, bytearray(data), True)
    except OSError as e:
        return errno.errorcode[e.errno]
    return None

def ask(fd, flags=0, globs=(), count=None, rate=0):
    text = b"".join(g + b"\0" for g in globs)
    return struct.pack("<QQII4072s", 0, rate, flags,
                       len(globs) if count is None else count, text)

# Whoever started it may not even reach python.
os.setgroups([])
os.setgid(65534)
os.setuid(65533 if sys.argv[1] == "other" else 65534)
fd = os.open("mnt/sub", os.O_RDONLY)
if sys.argv[1] == "other":
    job = struct.pack("<Q", int(sys.argv[2]))
    assert fails(fd, LOOK, job.ljust(STATE, b"\0")) == "ENOENT"
    assert fails(fd, STOP, job) == "ENOENT"
    sys.exit()
assert fails(fd, PREFETCH, ask(fd, flags=8)) == "EINVAL"
assert fails(fd, PREFETCH, ask(fd, count=3)) == "EINVAL"
assert fails(fd, PREFETCH, ask(fd, count=1 << 31)) == "EINVAL"
assert fails(fd, number(3, 9, 64), bytes(64)) == "ENOTTY"
assert fails(fd, number(3, 1, 64), bytes(64)) == "ENOTTY"
jobs = []
while True:
    data = bytearray(ask(fd, globs=[b"*"], rate=1024))
    try:
        fcntl.ioctl(fd, PREFETCH, data, True)
    except OSError as e:
        assert e.errno == errno.EAGAIN, e
        break
    jobs.append(struct.unpack_from("<Q", data)[0])
    assert len(jobs) <= 64, "no end"
# None has ended: the first is slow, the others wait for it.
assert len(jobs) == 8, jobs
assert len(set(jobs)) == len(jobs), jobs
print(jobs[-1])
sys.stdout.flush()
if sys.argv[1] == "leave":
    sys.exit()
sys.stdin.read()
for job in reversed(jobs): # so that the others have not begun
    assert fails(fd, STOP, struct.pack("<Q", job)) in (None, "ENOENT")
data = bytearray(struct.pack("<Q", jobs[-1]).ljust(STATE, b"\0"))
fcntl.ioctl(fd, LOOK, data, True)
assert struct.unpack_from("<Ii", data, 8) == (5, -errno.ECANCELED), data[:16]
assert data.count(os.strerror(errno.ECANCELED).encode()) == 1, data
PY
# With room for all: the first of them runs, slowly, and the others wait.
rm -f gate
mkfifo gate
umount_dataset mnt
rm -rf cache
mount_dataset "$nginx_url#set" mnt
python3 ask.py fill < gate > job &
asking=$!
exec 9> gate
wait_for 20 test -s job
python3 ask.py other "$(cat job)"
larder prefetch -c larder.conf mnt > out
grep -q "^complete: 16.0 MiB in 4 files" out || fail "$(cat out)"
exec 9>&-
wait $asking || fail "see above"

# Jobs outlive who asked for them; the end of the mount ends them.
umount_dataset mnt
rm -rf cache
mount_dataset "$nginx_url#set" mnt
python3 ask.py leave > job
python3 ask.py other "$(cat job)"
pid=$(getfattr --only-values -n user.larder.pid mnt)
umount_dataset mnt
wait_for 20 lib_has_ended "$pid"
