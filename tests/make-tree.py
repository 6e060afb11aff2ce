#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a random tree: make-tree.py [--seed N] [--entries N] [--big BYTES] DIR

The seed is printed; the same seed makes the same tree. In it: odd names, deep
paths, empty files and directories, small neighbours, files around the sizes at
which chunks and shared blobs end, sparse files, symbolic and hard links,
times in nanoseconds, all permission bits, user.* attributes.
"""
import argparse
import os
import random

ODD_NAMES = [
    b"100% sure", b"%41", b"%2e%2e", b"a+b", b"a b", b"a#b", b"a?b=c", b"a&b",
    b"a;b", b"http:x", b"C:\\x", b'"q"', b"'q'", b"[x]{y}", b"~", b"*",
    b" leading", b"trailing ", b"dot.", b"-rf", b"n" * 255, b"\xc3\xa9",
    b"e\xcc\x81", b"\xf0\x9f\x8d\x9e", b"\xd7\xa9\xd7\x9c", b"new\nline",
    b"tab\t", b"\xff\xfe not utf-8", b"..x", b"...", b"A", b"\x01\x7f",
    b"heads@tag", b".hidden", b",comma\\,",
]
SIZES = [
    0, 1, 15, 511, 4095, 4096, 4097, 65536, 131071, 131072, 131073, 262143,
    262144, 262145, 1048575, 1048576, 1048577, 4194303, 4194304, 4194305,
    5 * 1048576 + 123,
]


class Maker:
    def __init__(self, seed, entries, big):
        self.random = random.Random(seed)
        self.left = entries
        self.big = big
        self.odd = list(ODD_NAMES)
        self.random.shuffle(self.odd)
        self.sizes = list(SIZES)
        self.random.shuffle(self.sizes)
        self.files = []
        self.has_xattrs = True

    def name(self):
        if self.odd and self.random.random() < 0.3:
            return self.odd.pop()
        kind = self.random.random()
        if kind < 0.1:
            return bytes(self.random.choice([*range(1, 47), *range(48, 256)])
                         for _ in range(self.random.randint(3, 40)))
        stem = "%x" % self.random.getrandbits(self.random.choice([16, 32, 64]))
        return stem.encode() + self.random.choice([b"", b".txt", b".json"])

    def content(self, size):
        kind = self.random.random()
        if kind < 0.4:
            return self.random.randbytes(size)
        if kind < 0.5:
            return bytes(size)
        words = [b"%x " % self.random.getrandbits(20) for _ in range(64)]
        text = b"".join(self.random.choices(words, k=size // 5 + 1))
        return (text + bytes(size))[:size]

    def sparse(self, path, size, parts):
        with open(path, "wb") as f:
            f.truncate(size)
            for _ in range(parts):
                f.seek(self.random.randrange(size))
                f.write(self.random.randbytes(self.random.randint(1, 300000)))

    def file(self, path):
        kind = self.random.random()
        if self.files and kind < 0.03:
            os.link(self.random.choice(self.files), path)
            return
        if kind < 0.05:
            self.sparse(path, self.random.randint(1, 40 << 20), 3)
        else:
            size = self.sizes.pop() if self.sizes and kind < 0.3 else \
                int(self.random.paretovariate(0.7) * 300) % 3000000
            with open(path, "wb") as f:
                f.write(self.content(size))
        self.files.append(path)
        self.dress(path)

    def dress(self, path):
        """Attributes, permissions, and the time last."""
        if self.has_xattrs and self.random.random() < 0.3:
            for i in range(self.random.randint(1, 3)):
                value = self.random.randbytes(self.random.choice([0, 5, 900]))
                try:
                    os.setxattr(path, b"user.key%d" % i, value)
                except OSError:
                    self.has_xattrs = False
        if os.path.isdir(path):
            os.chmod(path, self.random.choice([0o755, 0o700, 0o555, 0o511]))
        else:
            os.chmod(path, self.random.choice(
                [0o644, 0o600, 0o444, 0o755, 0o777, 0o4755] +
                [0o000] * (os.geteuid() == 0)))
        self.time(path)

    def time(self, path):
        second = self.random.choice([
            0, 1, -1, -86400, 946684800, 2**31 - 1, 2**31, 2**32 + 7,
            self.random.randrange(1700000000)])
        os.utime(path, ns=(0, second * 10**9 + self.random.randrange(10**9)),
                 follow_symlinks=False)

    def symlink(self, path):
        target = self.random.choice([
            b"nowhere", b"../..", b"/", b"x" * 4095, b"a\nb", self.name()])
        os.symlink(target, path)
        self.time(path)

    def directory(self, path, depth):
        os.mkdir(path)
        for _ in range(self.random.choice([0, 1, 2, 10, 40])):
            if self.left <= 0:
                break
            child = path + b"/" + self.name()
            if os.path.lexists(child):
                continue
            self.left -= 1
            kind = self.random.random()
            if kind < 0.2 and depth < 12:
                self.directory(child, depth + 1)
            elif kind < 0.28:
                self.symlink(child)
            else:
                self.file(child)
        self.dress(path)

    def deep(self, path):
        """Directories to the limit of a path."""
        os.mkdir(path)
        while len(path) < 3800:
            path += b"/" + b"d" * self.random.choice([1, 100, 250])
            os.mkdir(path)
        self.file(path + b"/bottom")

    def make(self, root):
        os.mkdir(root)
        while self.left > 0:
            self.left -= 1
            self.directory(root + b"/top%d" % self.left, 1)
        self.deep(root + b"/deep")
        for i, size in enumerate(self.sizes):
            with open(root + b"/size%d" % i, "wb") as f:
                f.write(self.content(size))
        for name in self.odd:
            self.file(root + b"/" + name)
        if self.big:
            self.sparse(root + b"/big", self.big, 20)
        os.mkfifo(root + b"/fifo")
        self.dress(root)
        os.chmod(root, 0o755)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--entries", type=int, default=500)
    parser.add_argument("--big", type=int, default=0)
    parser.add_argument("dir")
    args = parser.parse_args()
    seed = args.seed
    if seed is None:
        seed = random.SystemRandom().getrandbits(32)
    print("make-tree: seed", seed, flush=True)
    Maker(seed, args.entries, args.big).make(os.fsencode(args.dir))


main()
