#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A session that somebody else mounted is taken over as /dev/fd/N; systemd is told when the mount
# answers, and its watchdog is fed.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3

mkdir tree mnt
echo data > tree/file
publish_tree tree mirror d

cat > take.py <<'PY'
import ctypes, os, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
T = os.environ['T']
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(T + '/notify')
listener.settimeout(20)
fd = os.open('/dev/fuse', os.O_RDWR)
data = ('fd=%d,rootmode=40000,user_id=0,group_id=0' % fd).encode()
# not read-only: the filesystem itself must say no
if libc.mount(b'given', (T + '/mnt').encode(), b'fuse.given', 0, data):
    sys.exit(os.strerror(ctypes.get_errno()))
env = dict(os.environ, NOTIFY_SOCKET=T + '/notify', WATCHDOG_USEC='3000000')
larder = subprocess.Popen(
    ['larder', 'mount', '-f', '-c', T + '/larder.conf', '-o',
     'cache=%s/cache,key=%s/test.key.pub' % (T, T), T + '/mirror#d', '/dev/fd/%d' % fd],
    pass_fds=[fd], env=env, stdout=subprocess.PIPE)
first = listener.recv(4096).decode()
assert first.startswith('READY=1\n') and 'STATUS=d: 5 B' in first, first
assert b'd: 5 B' in larder.stdout.readline()
assert open(T + '/mnt/file').read() == 'data\n'
for call in (lambda: open(T + '/mnt/new', 'w'), lambda: open(T + '/mnt/file', 'a'),
             lambda: os.mkdir(T + '/mnt/new'), lambda: os.unlink(T + '/mnt/file'),
             lambda: os.rename(T + '/mnt/file', T + '/mnt/x'),
             lambda: os.truncate(T + '/mnt/file', 0),
             lambda: os.symlink('a', T + '/mnt/b'), lambda: os.link(T + '/mnt/file', T + '/mnt/b'),
             lambda: os.chmod(T + '/mnt/file', 0o600), lambda: os.rmdir(T + '/mnt'),
             lambda: os.mknod(T + '/mnt/b'), lambda: os.setxattr(T + '/mnt/file', 'user.a', b''),
             lambda: os.removexattr(T + '/mnt/file', 'user.a')):
    try:
        call()
        sys.exit('a call that changes something succeeded')
    except OSError as error:
        assert error.errno in (30, 16), error # EROFS; EBUSY of the mount point
said = ''
while 'WATCHDOG=1' not in said:
    said += listener.recv(4096).decode() + '\n'
larder.send_signal(signal.SIGTERM)
while 'STOPPING=1' not in said:
    said += listener.recv(4096).decode() + '\n'
assert larder.wait(10) == 0
# the descriptor is not ours to unmount
assert ' %s/mnt ' % T in open('/proc/self/mountinfo').read()
PY
T=$T python3 take.py
