#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare a tree with what was published from it: compare-trees.py TREE COPY

Names, types, contents, sizes, permissions without setuid, setgid and sticky,
times in nanoseconds, link targets, user.* attributes. Of TREE, what is
neither file, directory nor link is left out. Ends with 1 and says what
differs.
"""
import os
import stat
import sys

PART = 1 << 20
faults = 0


def complain(path, text):
    global faults
    faults += 1
    if faults <= 20:
        print(f"{path!r}: {text}", file=sys.stderr)


def attributes(path):
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    return {n: os.getxattr(path, n, follow_symlinks=False) for n in names
            if n.startswith("user.") and not n.startswith("user.larder.")}


def kind(st):
    return stat.S_IFMT(st.st_mode)


def compare_contents(a, b, path):
    """With read() of the whole: an early end shows as a difference."""
    with open(a, "rb", 0) as f, open(b, "rb", 0) as g:
        at = 0
        while True:
            x, y = f.read(PART), g.read(PART)
            if x != y:
                n = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q),
                         min(len(x), len(y)))
                complain(path, f"contents differ at {at + n}: read {len(x)} "
                         f"and {len(y)} bytes at {at}; from there on "
                         f"{y[n:n + 16].hex() or 'none'}")
                return
            if not x:
                return
            at += len(x)


def compare(a, b, path):
    s, t = os.lstat(a), os.lstat(b)
    if kind(s) != kind(t):
        complain(path, f"type {s.st_mode:o}, {t.st_mode:o}")
        return
    if (s.st_mode ^ t.st_mode) & 0o777 and not stat.S_ISLNK(s.st_mode):
        complain(path, f"mode {s.st_mode:o}, {t.st_mode:o}")
    if t.st_mode & 0o7000:
        complain(path, f"mode {t.st_mode:o}")
    if s.st_mtime_ns != t.st_mtime_ns:
        complain(path, f"time {s.st_mtime_ns}, {t.st_mtime_ns}")
    if attributes(a) != attributes(b):
        complain(path, f"attributes {attributes(a)}, {attributes(b)}")
    if stat.S_ISLNK(s.st_mode):
        if os.readlink(a) != os.readlink(b):
            complain(path, "another target")
    elif stat.S_ISREG(s.st_mode):
        if s.st_size != t.st_size:
            complain(path, f"size {s.st_size}, {t.st_size}")
        compare_contents(a, b, path)
    else:
        compare_directories(a, b, path)


def names(path, skips):
    with os.scandir(path) as entries:
        return {e.name for e in entries
                if not skips or e.is_symlink() or e.is_file() or e.is_dir()}


def compare_directories(a, b, path):
    here, there = names(a, True), names(b, False)
    for name in here - there:
        complain(path + b"/" + name, "is missing")
    for name in there - here:
        complain(path + b"/" + name, "is too much")
    for name in sorted(here & there):
        compare(a + b"/" + name, b + b"/" + name, path + b"/" + name)


sys.setrecursionlimit(10000)
compare(os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), b".")
if faults:
    print(f"{faults} differences", file=sys.stderr)
sys.exit(faults > 0)
