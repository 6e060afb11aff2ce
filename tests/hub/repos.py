# SPDX-License-Identifier: Apache-2.0
"""Repositories of the imitated Hub: commits, references, files.

A file's bytes are held, lie in a file on disk, or are a function of the
offset, so that a file of a terabyte costs nothing. Ids are what git and LFS
would give them, except for commits (a digest of what they hold) and for files
that nobody could hash.
"""
import datetime
import hashlib
import os
import threading

PREFIX = {"model": "", "dataset": "datasets/", "space": "spaces/"}
LFS_BYTES = 1 << 20  # larger files are kept by LFS, whatever their name
HASHED_BYTES = 2 << 30  # above it a digest is made up
LFS_NAMES = (".safetensors", ".bin", ".parquet", ".onnx", ".tar", ".zip",
             ".zst", ".xz", ".gguf", ".arrow", ".npy")
BLOCK = 64 << 10


def git_id(kind, data):
    return hashlib.sha1(b"%s %d\0" % (kind, len(data)) + data).hexdigest()


class Held:
    def __init__(self, data):
        self.data = data
        self.size = len(data)

    def read(self, offset, length):
        return self.data[offset:offset + length]


class OnDisk:
    def __init__(self, path):
        self.path = path
        self.size = os.path.getsize(path)

    def read(self, offset, length):
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(length)


class Stamped:
    """Bytes that follow from seed and offset, in blocks."""

    def __init__(self, size, seed):
        self.size = size
        self.seed = str(seed).encode()

    def block(self, number):
        name = b"%s %d" % (self.seed, number)
        return hashlib.shake_128(name).digest(BLOCK)

    def read(self, offset, length):
        end = min(offset + length, self.size)
        parts = []
        while offset < end:
            number, skip = divmod(offset, BLOCK)
            part = self.block(number)[skip:skip + end - offset]
            parts.append(part)
            offset += len(part)
        return b"".join(parts)


class File:
    def __init__(self, path, content, lfs=None):
        self.content = content
        self.size = content.size
        name = path.rsplit("/", 1)[-1]
        if lfs is None:
            lfs = self.size > LFS_BYTES or name.endswith(LFS_NAMES)
        self.lfs = lfs
        self.lock = threading.Lock()
        self.digests = None

    def hashed(self):
        """(git blob id, sha256 or None)"""
        with self.lock:
            if self.digests is None:
                self.digests = self.hash()
            return self.digests

    def hash(self):
        if not self.lfs:
            data = self.content.read(0, self.size)
            return git_id(b"blob", data), None
        digest = hashlib.sha256()
        if self.size > HASHED_BYTES:
            digest.update(b"nobody knows %d" % self.size)
        else:
            for offset in range(0, self.size, 1 << 20):
                digest.update(self.content.read(offset, 1 << 20))
        sha256 = digest.hexdigest()
        return git_id(b"blob", self.pointer(sha256)), sha256

    def pointer(self, sha256):
        return (b"version https://git-lfs.github.com/spec/v1\n"
                b"oid sha256:%s\nsize %d\n" % (sha256.encode(), self.size))

    @property
    def oid(self):
        return self.hashed()[0]

    @property
    def etag(self):
        return self.hashed()[1] or self.hashed()[0]

    @property
    def xet_hash(self):
        return hashlib.blake2s(self.etag.encode()).hexdigest()


class Commit:
    def __init__(self, files, title, number):
        self.files = dict(files)
        self.title = title
        self.date = (datetime.datetime(2026, 1, 2, 3, 4, 5) +
                     datetime.timedelta(days=number))
        text = "\n".join("%s %s" % (path, file.oid)
                         for path, file in sorted(files.items()))
        self.id = git_id(b"commit", ("%s\n%d\n%s" % (title, number,
                                                    text)).encode())

    def stamp(self):
        return self.date.strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def directories(self):
        """path -> git tree id"""
        found = {}
        for path, file in self.files.items():
            parts = path.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                found.setdefault("/".join(parts[:depth]), []).append(file.oid)
        return {path: git_id(b"tree", "".join(sorted(oids)).encode())
                for path, oids in found.items()}


class Repo:
    def __init__(self, kind, name, private=False, gated=False, disabled=False):
        self.kind = kind
        self.name = name
        self.private = private
        self.gated = gated
        self.disabled = disabled
        self.commits = {}
        self.history = []
        self.refs = {}
        self.vanished = set()

    def push(self, files, branch="main", title="Upload", delete=()):
        """Add or replace files of a branch; the new commit's id."""
        ref = branch if branch.startswith("refs/") else "refs/heads/" + branch
        old = self.refs.get(ref) or self.refs.get("refs/heads/main")
        now = dict(self.commits[old].files) if old else {}
        for path in delete:
            now.pop(path, None)
        now.update(files)
        commit = Commit(now, title, len(self.history))
        self.commits[commit.id] = commit
        self.history.append(commit.id)
        self.refs[ref] = commit.id
        return commit.id

    def resolve(self, revision):
        """A branch, tag, full reference, commit or the beginning of one."""
        if revision == "HEAD":
            revision = "main"
        for ref in ("refs/heads/" + revision, "refs/tags/" + revision,
                    revision):
            if ref in self.refs:
                return self.living(self.refs[ref])
        if len(revision) >= 7:
            for commit in self.commits:
                if commit.startswith(revision):
                    return self.living(commit)
        return None

    def living(self, commit):
        return None if commit in self.vanished else self.commits[commit]


class Store:
    def __init__(self):
        self.repos = {}
        self.aliases = {}

    def add(self, kind, name, **options):
        repo = Repo(kind, name, **options)
        self.repos[kind, name] = repo
        return repo

    def find(self, kind, name):
        """(repo or None, new name or None)"""
        new = self.aliases.get((kind, name))
        return self.repos.get((kind, new or name)), new


def from_directory(path):
    files = {}
    for top, _, names in os.walk(path):
        for name in names:
            full = os.path.join(top, name)
            below = os.path.relpath(full, path)
            files[below] = File(below, OnDisk(full))
    return files
