#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sixteen threads open, read and close a few files again and again while those become
# complete: no open fails, every byte is right, and in the end nothing is open.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3 getfattr

mkdir tree
for i in 1 2 3 4 5 6; do
	head -c $((200000 * i)) /dev/urandom > "tree/file$i"
done
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt
case $(getfattr --only-values -n user.larder.passthrough mnt) in
off*) skip "no passthrough here" ;;
esac
cat > race.py <<'PY'
import os, random, threading, time
names = sorted(os.listdir("tree"))
right = {n: open("tree/" + n, "rb").read() for n in names}
passed, faults, end = set(), [], time.monotonic() + 60

def run(seed):
    choose = random.Random(seed)
    rounds = 0
    # until every file was seen to be passed through, and some more
    while not faults and (rounds < 60 or len(passed) < len(names)):
        rounds += 1
        name = choose.choice(names)
        bytes_ = right[name]
        try:
            if time.monotonic() > end:
                raise TimeoutError("passed through: %s" % sorted(passed))
            fds = [os.open("mnt/" + name, os.O_RDONLY) for _ in range(choose.randint(1, 3))]
            for fd in fds:
                at = choose.randrange(len(bytes_))
                if os.pread(fd, 70000, at) != bytes_[at:at + 70000]:
                    raise ValueError("wrong bytes of " + name)
            if os.getxattr("mnt/" + name, "user.larder.state") == b"passthrough":
                passed.add(name)
            for fd in fds:
                os.close(fd)
        except Exception as fault:
            faults.append(fault)

threads = [threading.Thread(target=run, args=(i,)) for i in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not faults, faults
PY
python3 race.py
wait_for 60 eval '[ "$(getfattr --only-values -n user.larder.passthrough mnt)" = "on, 0 files" ]'
umount_dataset mnt
