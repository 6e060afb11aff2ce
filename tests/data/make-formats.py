#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes good/* and bad-* of the formats, from larder-format(5) alone.

Nothing of larder's own code is used, so that the files check the code
against the page. Run in this directory; the files are kept in the tree.
Signatures are made by openssl(1).
"""
import base64
import hashlib
import os
import struct
import subprocess
import tempfile

ZERO = 1 << 31


def sha(data):
    return hashlib.sha256(data).digest()


def write(name, data):
    if isinstance(data, str):
        data = data.encode()
    with open(name, "wb") as file:
        file.write(data)


def put(data, at, value):
    return data[:at] + value + data[at + len(value):]


def variants(kind, good, changes):
    """bad-KIND-NAME for each change of a good file."""
    for name, change in changes.items():
        bad = change(good)
        assert bad != good, name
        write(f"bad-{kind}-{name}", bad)


def preamble(magic):
    return magic + struct.pack("<HH", 1, 0)


def record(digest, length, zero=False):
    return digest + struct.pack("<I", length | (ZERO if zero else 0))


def root(total, chunks, pages, body):
    return (preamble(b"LRDR") + struct.pack("<B3xIQQII", 1, 4096, total,
                                            chunks, pages, 0) + body)


def page(records):
    return (preamble(b"LRDP") + struct.pack("<II", len(records), 0) +
            b"".join(records))


def raw_frame(data):
    assert len(data) < 256
    return (struct.pack("<IBB", 0xFD2FB528, 0x20, len(data)) +
            struct.pack("<I", len(data) << 3 | 1)[:3] + data)


def synthetic(count):
    """The recipe of `count` chunks that test-recipe.c writes as well."""
    records, total = [], 0
    for i in range(count):
        length = i % 1000 + 1
        if i % 7 == 3:
            records.append(record(bytes(32), length, True))
        else:
            records.append(record(sha(struct.pack("<I", i)), length))
        total += length
    if count <= 4096:
        return root(total, count, 0, b"".join(records))
    body, end = b"", 0
    for first in range(0, count, 4096):
        part = records[first:first + 4096]
        end += sum(struct.unpack("<I", r[32:])[0] & ~ZERO for r in part)
        body += sha(page(part)) + struct.pack("<Q", end)
    return root(total, count, len(body) // 40, body)


CHUNKS = [b"abc" * 20, b"larder!\n" * 9]


def recipes():
    records = [record(sha(CHUNKS[0]), 60), record(bytes(32), 1000, True),
               record(sha(CHUNKS[1]), 72)]
    good = root(1132, 3, 0, b"".join(records))
    write("good/recipe", good)
    paged = synthetic(8200)
    write("good/recipe-paged", paged)
    for count in (1, 4096, 4097, 8192, 8200):
        print("recipe of", count, sha(synthetic(count)).hex())
    variants("recipe", good, {
        "empty": lambda d: b"",
        "magic": lambda d: put(d, 0, b"LRDX"),
        "html": lambda d: b"<!DOCTYPE html><html><body>404</body></html>",
        "version": lambda d: put(d, 4, b"\2\0"),
        "flag": lambda d: put(d, 7, b"\x01"),
        "digest-type": lambda d: put(d, 8, b"\3"),
        "reserved": lambda d: put(d, 10, b"\1"),
        "page-records": lambda d: put(d, 12, struct.pack("<I", 4095)),
        "blob-bytes": lambda d: put(d, 16, struct.pack("<Q", 1133)),
        "blob-huge": lambda d: put(d, 16, struct.pack("<Q", 1 << 63)),
        "count": lambda d: put(d, 24, struct.pack("<Q", 4)),
        "count-huge": lambda d: put(d, 24, b"\xff" * 8),
        "count-wraps": lambda d: put(d, 24, struct.pack(
            "<Q", ((1 << 64) + 108) // 36)),
        "count-zero": lambda d: put(d[:40], 16, bytes(16)),
        "pages": lambda d: put(d, 32, struct.pack("<I", 1)),
        "short-header": lambda d: d[:39],
        "short": lambda d: d[:-1],
        "trailing": lambda d: d + b"\0",
        "length-zero": lambda d: put(d, 72, bytes(4)),
        "length-large": lambda d: put(d, 72, struct.pack(
            "<I", (4 << 20) + 1)),
        "zero-with-digest": lambda d: put(d, 76, b"\1"),
    })
    variants("recipe-paged", paged, {
        "count": lambda d: put(d, 24, struct.pack("<Q", 8192)),
        "order": lambda d: put(d, 72, struct.pack("<Q", 1 << 40)),
        "sum": lambda d: put(d, 152, struct.pack("<Q", 1)),
        "blob-bytes": lambda d: put(d, 16, struct.pack("<Q", struct.unpack(
            "<Q", d[16:24])[0] + 1)),
        "page-empty": lambda d: put(d, 72, d[112:120]),
        "page-few-bytes": lambda d: put(d, 72, struct.pack("<Q", 4095)),
        "short": lambda d: d[:-40],
    })


def packs():
    frames = [raw_frame(c) for c in CHUNKS]
    records, at = b"", 0
    for chunk, frame in zip(CHUNKS, frames):
        records += sha(chunk) + struct.pack("<QII", at, len(frame), len(chunk))
        at += len(frame)
    size = 8 + 16 + len(records) + 24
    table = (struct.pack("<II", 0x184D2A5C, size - 8) + preamble(b"LRDK") +
             struct.pack("<IB3x", len(CHUNKS), 1) + records +
             struct.pack("<QQ", at, size) + b"LRDKEND\n")
    assert len(table) == size
    good = b"".join(frames) + table
    write("good/pack", good)
    print("pack", sha(table).hex())
    variants("pack", good, {
        "empty": lambda d: b"",
        "short": lambda d: d[:-1],
        "trailing": lambda d: d + b"\0",
        "head-cut": lambda d: d[1:],
        "skippable": lambda d: put(d, at, b"\x50"),
        "payload": lambda d: put(d, at + 4, struct.pack("<I", size)),
        "magic": lambda d: put(d, at + 8, b"LRDX"),
        "version": lambda d: put(d, at + 12, b"\2"),
        "flag": lambda d: put(d, at + 15, b"\x80"),
        "count": lambda d: put(d, at + 16, struct.pack("<I", 3)),
        "count-wraps": lambda d: put(d, at + 16, struct.pack(
            "<I", 2 + (1 << 28))),
        "digest-type": lambda d: put(d, at + 20, b"\4"),
        "reserved": lambda d: put(d, at + 22, b"\4"),
        "gap": lambda d: put(d, at + 24 + 32, b"\1"),
        "stored-zero": lambda d: put(d, at + 24 + 40, bytes(4)),
        "stored-huge": lambda d: put(d, at + 24 + 40, b"\xff" * 4),
        "plain-zero": lambda d: put(d, at + 24 + 44, bytes(4)),
        "plain-huge": lambda d: put(d, at + 24 + 44, b"\xff" * 4),
        "table-offset": lambda d: put(d, len(d) - 24, b"\xff" * 8),
        "table-bytes": lambda d: put(d, len(d) - 16, struct.pack(
            "<Q", size - 48)),
    })
    return sha(table), len(good), [len(f) for f in frames]


def places(pack_id, pack_bytes, stored):
    plain = (struct.pack("<IIQ", 0, stored[0], 0) +
             struct.pack("<IIQ", 0xFFFFFFFF, 0, 0) +
             struct.pack("<IIQ", 0, stored[1], stored[0]))

    def file(plain, change=lambda head: head):
        frame = raw_frame(plain)
        head_bytes = 48 + 48 + 16
        head = (preamble(b"LRDL") +
                struct.pack("<QIIQQQ", 3, 1, 1, head_bytes,
                            head_bytes + len(frame), 0) +
                struct.pack("<B7x", 1) + pack_id +
                struct.pack("<Q", pack_bytes) +
                struct.pack("<QII", head_bytes, len(frame), 0))
        return change(head) + frame

    good = file(plain)
    write("good/places", good)
    variants("places", good, {
        "empty": lambda d: b"",
        "magic": lambda d: put(d, 0, b"LRDX"),
        "version": lambda d: put(d, 4, b"\2"),
        "flag": lambda d: put(d, 7, b"\x01"),
        "chunks-zero": lambda d: put(d, 8, bytes(8)),
        "chunks-huge": lambda d: put(d, 8, b"\xff" * 8),
        "chunks": lambda d: put(d, 8, struct.pack("<Q", 2)),
        "packs": lambda d: put(d, 16, struct.pack("<I", 2)),
        "packs-huge": lambda d: put(d, 16, b"\xff" * 4),
        "pages": lambda d: put(d, 20, struct.pack("<I", 2)),
        "head-bytes": lambda d: put(d, 24, struct.pack("<Q", 1 << 60)),
        "file-bytes": lambda d: put(d, 32, struct.pack("<Q", len(d) + 1)),
        "reserved": lambda d: put(d, 40, b"\1"),
        "digest-type": lambda d: put(d, 48, b"\2"),
        "pack-reserved": lambda d: put(d, 50, b"\2"),
        "pack-size-zero": lambda d: put(d, 48 + 40, bytes(8)),
        "pack-size-huge": lambda d: put(d, 48 + 40, b"\xff" * 8),
        "page-offset": lambda d: put(d, 96, struct.pack("<Q", 113)),
        "page-stored": lambda d: put(d, 104, struct.pack("<I", 1 << 20)),
        "page-reserved": lambda d: put(d, 108, b"\1"),
        "short-head": lambda d: d[:111],
        "short": lambda d: d[:-1],
        "trailing": lambda d: d + b"\0",
        "frame": lambda d: put(d, 112, b"\0"),
        "frame-size": lambda d: put(d, 117, b"\x31"),
        "pack-index": lambda d: file(put(plain, 0, b"\1")),
        "stored-zero": lambda d: file(put(plain, 4, bytes(4))),
        "stored-huge": lambda d: file(put(plain, 4, b"\xff" * 4)),
        "outside": lambda d: file(put(plain, 8, struct.pack(
            "<Q", pack_bytes - stored[0] + 1))),
        "wraps": lambda d: file(put(plain, 8, b"\xff" * 8)),
        "zero-with-place": lambda d: file(put(plain, 20, b"\1")),
    })


# RFC 8032 7.1, tests 1 and 2
SEEDS = [
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
]
PUBLICS = [
    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
]


def sign(seed, message):
    der = bytes.fromhex("302e020100300506032b657004220420" + seed)
    with tempfile.TemporaryDirectory() as tmp:
        key, text = os.path.join(tmp, "key"), os.path.join(tmp, "text")
        write(key, der)
        write(text, message)
        return subprocess.run(
            ["openssl", "pkeyutl", "-sign", "-rawin", "-keyform", "DER",
             "-inkey", key, "-in", text], check=True,
            capture_output=True).stdout


def signature(index, message):
    key_id = sha(bytes.fromhex(PUBLICS[index]))[:8].hex()
    value = base64.b64encode(sign(SEEDS[index], message)).decode()
    return f"signature: {key_id} {value}\n"


HEAD = """\
larder head 1
dataset: hf/pile.v2
catalog: sha256:{catalog} 4096
entries: 12411
bytes: 442381631488
serial: 7
time: 2026-11-30T09:00:00Z
expires: 2027-01-30T09:00:00Z
previous: sha256:{previous}
"""


def heads():
    text = HEAD.format(catalog=sha(b"catalog").hex(),
                       previous=sha(b"previous").hex())
    good = text + signature(0, text) + signature(1, text)
    write("good/head", good)
    plain = text.replace("expires: 2027-01-30T09:00:00Z\n", "")
    plain = plain.replace("dataset: hf/pile.v2\n",
                          "dataset: hf/pile.v2\ntag: v2\nfuture: yes\n")
    plain = plain[:plain.index("previous")]
    write("good/head-tagged", plain + signature(1, plain))
    for i, name in enumerate(("a", "b")):
        for kind, value in (("secret", SEEDS[i]), ("public", PUBLICS[i])):
            encoded = base64.b64encode(bytes.fromhex(value)).decode()
            end = " test key\n" if name == "a" else "\n"
            write(f"good/{kind}-key-{name}",
                  f"larder-{kind}-key ed25519 {encoded}{end}")

    def sub(old, new):
        assert old in good, old
        return lambda d: d.replace(old, new, 1)

    line = good.splitlines(True)
    variants("head", good, {
        "empty": lambda d: "",
        "html": lambda d: "<!DOCTYPE html>\n<html>not found</html>\n",
        "version": sub("larder head 1", "larder head 2"),
        "first-line": sub("larder head 1", "larder head 1 "),
        "crlf": lambda d: d.replace("\n", "\r\n"),
        "nul": sub("entries: ", "entries: \0"),
        "control": sub("serial", "future: a\1b\nserial"),
        "no-dataset": lambda d: d.replace(line[1], ""),
        "no-catalog": lambda d: d.replace(line[2], ""),
        "no-entries": lambda d: d.replace(line[3], ""),
        "no-bytes": lambda d: d.replace(line[4], ""),
        "no-serial": lambda d: d.replace(line[5], ""),
        "no-time": lambda d: d.replace(line[6], ""),
        "twice": lambda d: d.replace(line[5], line[5] * 2),
        "order": lambda d: d.replace(line[4] + line[5], line[5] + line[4]),
        "must-refuse": sub("serial", "!feature: x\nserial"),
        "key": sub("serial", "Serial"),
        "no-colon": sub("serial: 7", "serial 7"),
        "dataset-dots": sub("hf/pile.v2", "hf/../pile"),
        "dataset-slash": sub("hf/pile.v2", "/hf/pile"),
        "dataset-space": sub("hf/pile.v2", "hf pile"),
        "dataset-long": sub("hf/pile.v2", "x" * 256),
        "tag-slash": sub("catalog: ", "tag: a/b\ncatalog: "),
        "catalog-type": sub("catalog: sha256", "catalog: reference"),
        "catalog-short": sub(" 4096", ""),
        "catalog-bytes": sub(" 4096", " 268435457"),
        "catalog-zero": sub(" 4096", " 0"),
        "entries-sign": sub("entries: ", "entries: -"),
        "bytes-range": sub("442381631488", "18446744073709551616"),
        "serial-hex": sub("serial: 7", "serial: 0x7"),
        "time": sub("T09:00:00Z", " 09:00"),
        "time-month": sub("2026-11-30", "2026-13-30"),
        "previous": sub("previous: sha256", "previous: git-sha1"),
        "after-signature": lambda d: d + "later: x\n",
        "signature-id": lambda d: d.replace(line[9][11:13], "xy", 1),
        "signature-short": lambda d: d[:-10] + "\n",
        "signatures": lambda d: d + line[9] * 7,
        "cut": lambda d: d[:-1],
        "long": lambda d: text + "x: " + "y" * 16384 + "\n",
    })
    key = f"larder-public-key ed25519 {base64.b64encode(bytes(32)).decode()}\n"
    variants("key", key, {
        "empty": lambda d: "",
        "word": lambda d: d.replace("public", "pubic"),
        "secret": lambda d: d.replace("public", "secret"),
        "algorithm": lambda d: d.replace("ed25519", "rsa"),
        "short": lambda d: d[:-6] + "\n",
        "lines": lambda d: d + d,
        "pem": lambda d: "-----BEGIN PUBLIC KEY-----\n",
    })


def frames():
    good = raw_frame(CHUNKS[0])
    write("good/frame", good)
    variants("frame", good, {
        "empty": lambda d: b"",
        "cut": lambda d: d[:-1],
        "trailing": lambda d: d + b"\0",
        "two": lambda d: d + d,
        "skippable": lambda d: b"\x50\x2a\x4d\x18\0\0\0\0" + d,
        "legacy": lambda d: put(d, 0, b"\x27"),
        "dictionary": lambda d: put(d, 4, b"\x21")[:5] + b"\7" + d[5:],
        "size": lambda d: put(d, 5, b"\x3d"),
        "no-size": lambda d: put(d, 4, b"\0\x58"),
        "bomb": lambda d: struct.pack("<IBI", 0xFD2FB528, 0xA0, 1 << 30) +
        b"\3\0\x10x",
    })


frames()
recipes()
places(*packs())
heads()
