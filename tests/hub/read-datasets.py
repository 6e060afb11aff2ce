# SPDX-License-Identifier: Apache-2.0
"""What people read such datasets with: read-datasets.py DIR.

DIR/ORG/NAME are the repositories of make-datasets.py, wherever mounted.
"""
import gzip
import io
import json
import lzma
import os
import sys
import tarfile
import time
import zipfile

import datasets
import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import webdataset

from contents import (COYO, CRAWL, LAION, ZIP64_BEGIN, coyo_row, document,
                      image, laion_row, pile_row, pile_shards, record,
                      record_text, segments)

top = sys.argv[1]


def path(repo, name=""):
    return os.path.join(top, repo, name)


def pile():
    repo = "monology/pile-uncopyrighted"
    for streaming in (False, True):
        found = datasets.load_dataset(path(repo), streaming=streaming)
        assert sorted(found) == ["test", "train", "validation"], found
        for row, wanted in zip(found["train"], range(3000)):
            assert row == pile_row(wanted), (row, wanted)
    assert len(datasets.load_dataset(path(repo), split="train")) == 3000
    name, first, rows = pile_shards()[30]
    frame = pandas.read_json(path(repo, name), lines=True)
    assert len(frame) == rows
    assert frame.text[7] == pile_row(first + 7)["text"]


def laion():
    repo = "laion/laion2B-en"
    # A directory as one table; a column costs no other column.
    table = pyarrow.dataset.dataset(path(repo), format="parquet",
                                    exclude_invalid_files=True)
    assert table.count_rows() == 128 * 64
    near = table.to_table(columns=["SAMPLE_ID", "TEXT"], filter=(
        pyarrow.dataset.field("SAMPLE_ID") >= 8190))
    assert near.to_pylist() == [{"SAMPLE_ID": i, "TEXT": laion_row(i)["TEXT"]}
                                for i in (8190, 8191)]
    mapped = pyarrow.parquet.read_table(path(repo, LAION % 5),
                                        memory_map=True)
    assert mapped.to_pylist() == [laion_row(320 + i) for i in range(64)]
    loaded = datasets.load_dataset(path(repo), split="train")
    assert len(loaded) == 128 * 64 and loaded[4097] == laion_row(4097)


def coyo():
    repo = "kakaobrain/coyo-700m"
    frame = pandas.read_parquet(path(repo, COYO % 127))
    assert frame.to_dict("records")[31] == coyo_row(127 * 32 + 31)
    rows = datasets.load_dataset("parquet", split="train", data_files=path(
        repo, "data/*.parquet"), columns=["id", "text"])
    assert rows[3000] == {key: coyo_row(3000)[key] for key in ("id", "text")}


def images():
    repo = "acme/laion-images"
    rows = iter(webdataset.WebDataset(path(repo, "{00000..00003}.tar"),
                                      shardshuffle=False))
    for shard in range(4):
        for i in range(50):
            row, key = next(rows), "%05d%04d" % (shard, i)
            assert row["__key__"] == key, (row, key)
            assert row["jpg"] == image(key)
            assert json.loads(row["json"])["caption"] == row["txt"].decode()
    table = pyarrow.parquet.read_table(path(repo, "00002.parquet"))
    assert table["url"][9].as_py() == laion_row(109)["URL"]


def subset(number, members):
    """The documents of an archive of archives."""
    count = 0
    for member, file in members:
        part = int(member.split("-")[1].split("_")[0])
        with tarfile.open(fileobj=lzma.open(file)) as texts:
            for n, text in enumerate(texts):
                data = texts.extractfile(text).read()
                assert data == document(number, part, n), (member, n)
                count += 1
    return count


def openwebtext():
    repo = "Skylion007/openwebtext"
    for i in range(21):
        with tarfile.open(path(repo, "subsets/urlsf_subset%02d.tar" % i),
                          "r|") as outer:
            assert subset(i, ((m.name, io.BytesIO(
                outer.extractfile(m).read())) for m in outer)) == 10
    with tarfile.open(path(repo, "openwebtext.tar.xz")) as outer:
        assert len(outer.getmembers()) == 42


def commoncrawl():
    repo = "commoncrawl/commoncrawl"
    for kind in ("warc", "wat", "wet", "robotstxt"):
        with gzip.open(path(repo, "%s/%s.paths.gz" % (CRAWL, kind)),
                       "rt") as file:
            names = file.read().split()
        assert names == [n for k, n in segments() if k == kind]
        for name in names:
            with gzip.open(path(repo, name)) as file:
                assert file.read() == b"".join(record(kind, name, i)
                                               for i in range(20))
    # One record is one small read of a large file.
    with gzip.open(path(repo, "cc-index/collections/CC-MAIN-2025-21/indexes/"
                        "cdx-00000.gz"), "rt") as file:
        lines = [json.loads(line.split(" ", 2)[2]) for line in file]
    assert len(lines) == 120
    for at, line in enumerate(lines):
        with open(path(repo, line["filename"]), "rb", buffering=0) as file:
            file.seek(int(line["offset"]))
            data = gzip.decompress(file.read(int(line["length"])))
        assert data == record("warc", line["filename"], at % 20)
    table = pyarrow.dataset.dataset(path(repo, "cc-index/table/cc-main/warc"),
                                    partitioning="hive")
    rows = table.to_table().to_pylist()
    assert rows[3]["content"] == record_text(3)
    assert rows[3]["crawl"] == "CC-MAIN-2025-21", rows[3]


def cogvlm():
    repo = "THUDM/CogVLM-SFT-311K"
    for name in ("CogVLM-SFT-311K.zip", "CogVLM-SFT-311K-far.zip"):
        with zipfile.ZipFile(path(repo, name)) as archive:
            infos = archive.infolist()
            assert len(infos) == 400
            far = infos[0].header_offset >= ZIP64_BEGIN
            assert far == ("far" in name), infos[0]
            for i in (0, 57, 99):
                folder = "llava_details-minigpt4_3500_formate"
                assert archive.read("%s/images/%08d.jpg" % (folder, i)) == \
                    image("%s%d" % (folder, i))
                label = json.loads(archive.read("%s/labels/%08d.json" %
                                                (folder, i)))
                assert label["captions"][0]["content"] == "图 %d" % i


for read in (pile, laion, coyo, images, openwebtext, commoncrawl, cogvlm):
    begin = time.monotonic()
    read()
    print("%-12s %6.1f s" % (read.__name__, time.monotonic() - begin))
