# SPDX-License-Identifier: Apache-2.0
"""Well-known public datasets in small: make-datasets.py DIR.

Makes DIR/ORG/NAME, trees for `hub.py --repo`. Layouts, names, columns and
formats are the real ones, and all files are written by what writes the real
ones (pyarrow, zstd, xz, tar, gzip, zip); contents follow from their numbers,
so that read-datasets.py knows them.
"""
import gzip
import json
import lzma
import os
import subprocess
import sys
import zipfile

import pyarrow
import pyarrow.parquet

from contents import (COYO, CRAWL, LAION, ZIP64_BEGIN, coyo_row, document,
                      image, laion_row, pile_row, pile_shards, record,
                      record_text, segments)
from fixtures import tar

PILE_CARD = b"""---
configs:
- config_name: default
  data_files:
  - {split: train, path: "train/*.jsonl.zst"}
  - {split: validation, path: val.jsonl.zst}
  - {split: test, path: test.jsonl.zst}
---
# Pile Uncopyrighted
"""
top = sys.argv[1]


def path(repo, name):
    full = os.path.join(top, repo, name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return full


def write(repo, name, data):
    with open(path(repo, name), "wb") as file:
        file.write(data)


def pile():
    repo = "monology/pile-uncopyrighted"
    write(repo, "README.md", PILE_CARD)
    plain = []
    for name, first, rows in pile_shards():
        lines = b"".join(json.dumps(pile_row(i)).encode() + b"\n"
                         for i in range(first, first + rows))
        write(repo, name[:-len(".zst")], lines)
        plain.append(path(repo, name[:-len(".zst")]))
    subprocess.run(["zstd", "-q", "--rm", *plain], check=True)


def parquet(repo, name, rows, groups=2):
    table = pyarrow.Table.from_pylist(rows)
    pyarrow.parquet.write_table(table, path(repo, name), compression="snappy",
                                row_group_size=max(1, len(rows) // groups))


def laion():
    repo = "laion/laion2B-en"
    write(repo, "README.md", b"# LAION2B-en\n")
    for part in range(128):
        parquet(repo, LAION % part,
                [laion_row(part * 64 + i) for i in range(64)])


def coyo():
    repo = "kakaobrain/coyo-700m"
    write(repo, "README.md", b"# COYO-700M\n")
    for part in range(128):
        parquet(repo, COYO % part,
                [coyo_row(part * 32 + i) for i in range(32)])


def images():
    repo = "acme/laion-images"
    for shard in range(4):
        members, rows = [], []
        for i in range(50):
            key = "%05d%04d" % (shard, i)
            row = laion_row(shard * 50 + i)
            members += [(key + ".jpg", image(key)),
                        (key + ".txt", row["TEXT"].encode()),
                        (key + ".json", json.dumps(
                            {"key": key, "caption": row["TEXT"],
                             "status": "success"}).encode())]
            rows.append({"url": row["URL"], "caption": row["TEXT"],
                         "key": key, "status": "success"})
        write(repo, "%05d.tar" % shard, tar(members))
        parquet(repo, "%05d.parquet" % shard, rows)
        write(repo, "%05d_stats.json" % shard,
              json.dumps({"count": 50, "successes": 50}).encode())


def openwebtext():
    repo = "Skylion007/openwebtext"
    subsets = []
    for i in range(21):
        inner = []
        for j in range(2):
            texts = tar([("%07d-%032x.txt" % (n, n), document(i, j, n))
                         for n in range(5)])
            inner.append(("openwebtext/urlsf_subset%02d-%d_data.xz" % (i, j),
                          lzma.compress(texts)))
        write(repo, "subsets/urlsf_subset%02d.tar" % i, tar(inner))
        subsets += inner
    write(repo, "openwebtext.tar.xz", lzma.compress(tar(subsets)))
    write(repo, "README.md", b"# OpenWebText\n")


def commoncrawl():
    """Every record is a gzip member of its own, found by the index."""
    repo = "commoncrawl/commoncrawl"
    index = []
    lists = {}
    for kind, name in segments():
        data = b""
        for i in range(20):
            member = gzip.compress(record(kind, name, i), mtime=0)
            if kind == "warc":
                index.append("com,example)/%d 20250512042640 %s" % (
                    i, json.dumps({"url": "https://example.com/%d" % i,
                                   "status": "200", "length":
                                   str(len(member)), "offset":
                                   str(len(data)), "filename": name})))
            data += member
        write(repo, name, data)
        lists.setdefault(kind, []).append(name)
    for kind, names in lists.items():
        write(repo, "%s/%s.paths.gz" % (CRAWL, kind),
              gzip.compress("".join(n + "\n" for n in names).encode()))
    write(repo, "cc-index/collections/CC-MAIN-2025-21/indexes/cdx-00000.gz",
          gzip.compress("\n".join(index).encode()))
    parquet(repo, "cc-index/table/cc-main/warc/crawl=CC-MAIN-2025-21/"
            "subset=warc/part-00000.c000.gz.parquet",
            [{"url": "https://example.com/%d" % i, "content":
              record_text(i)} for i in range(20)])


def cogvlm():
    """As one zip, and as one whose members lie beyond 4 GiB: a hole."""
    repo = "THUDM/CogVLM-SFT-311K"
    write(repo, "README_zh.md", "# 数据集\n".encode())
    with open(path(repo, "CogVLM-SFT-311K-far.zip"), "wb") as file:
        file.truncate(ZIP64_BEGIN)
    for name in ("CogVLM-SFT-311K.zip", "CogVLM-SFT-311K-far.zip"):
        with zipfile.ZipFile(path(repo, name), "a") as archive:
            for folder in ("llava_details-minigpt4_3500_formate",
                           "llava_instruction_single_conversation_formate"):
                for i in range(100):
                    archive.writestr("%s/images/%08d.jpg" % (folder, i),
                                     image("%s%d" % (folder, i)))
                    archive.writestr(
                        "%s/labels/%08d.json" % (folder, i),
                        json.dumps({"captions": [{"role": "caption",
                                                  "content": "图 %d" % i}]},
                                   ensure_ascii=False),
                        zipfile.ZIP_DEFLATED)


for make in (pile, laion, coyo, images, openwebtext, commoncrawl, cogvlm):
    make()
