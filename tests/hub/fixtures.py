# SPDX-License-Identifier: Apache-2.0
"""Small repositories laid out like well-known public ones.

Names, numbering and nesting are real, sizes are not. Archives and safetensors
are real files; what the standard library cannot write (parquet, the rest of
zst) has the right beginning and end.
"""
import io
import json
import lzma
import struct
import tarfile
import zipfile

from repos import File, Held, Stamped


def text(path, words):
    return File(path, Held(words.encode()))


def safetensors(seed, tensors):
    header, data, at = {}, b"", 0
    for name, floats in tensors:
        body = Stamped(4 * floats, "%s %s" % (seed, name)).read(0, 4 * floats)
        header[name] = {"dtype": "F32", "shape": [floats],
                        "data_offsets": [at, at + len(body)]}
        data += body
        at += len(body)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return Held(struct.pack("<Q", len(head)) + head + data)


def zstd(data):
    """One frame of raw blocks: 4-byte content size, single segment."""
    out = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data))
    parts = [data[i:i + 131072] for i in range(0, len(data), 131072)] or [b""]
    for i, part in enumerate(parts):
        last = i + 1 == len(parts)
        out += struct.pack("<I", len(part) << 3 | last)[:3] + part
    return out


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def parquet(size, seed):
    body = Stamped(size - 12, seed).read(0, size - 12)
    return Held(b"PAR1" + body + struct.pack("<I", 64) + b"PAR1")


ODD = ["name#1", "why?.txt", "we ird #1?é.txt", "100% sure", "%41", "a+b",
       "模型.txt", "n" * 255, "'q'", "[x]{y}", "a&b;c", "a|b", "-rf"]


def model(store):
    """Two shards, a sub-folder, odd names, every kind of reference."""
    repo = store.add("model", "acme/tiny")
    files = {
        ".gitattributes": text("", "*.safetensors filter=lfs diff=lfs\n"),
        "README.md": text("", "---\nlicense: apache-2.0\n---\n# tiny\n"),
        "config.json": text("", '{"model_type": "tiny", "v": 1}\n'),
        "tokenizer.json": File("t", Stamped(700_001, "tokenizer"), False),
        "empty": text("", ""),
        "onnx/model.onnx": File("m.onnx", Stamped(2_300_017, "onnx")),
        "onnx/sub/deep/config.json": text("", "{}\n"),
    }
    index = {}
    for i in (1, 2):
        name = "model-0000%d-of-00002.safetensors" % i
        tensors = [("layer.%d.%d" % (i, j), 70_001 + j) for j in range(12)]
        index.update((tensor, name) for tensor, _ in tensors)
        files[name] = File(name, safetensors(name, tensors))
    files["model.safetensors.index.json"] = text("", json.dumps(
        {"metadata": {}, "weight_map": index}))
    for name in ODD:
        files["odd/" + name] = text("", "this is %s\n" % name)
    first = repo.push(files, title="First")
    repo.refs["refs/tags/v1.0"] = first
    repo.push({"config.json": text("", '{"model_type": "tiny", "v": 2}\n')},
              title="Second")
    repo.push({"branch.txt": text("", "feature\n")}, "feature/x")
    repo.push({"pr.txt": text("", "pull request\n")}, "refs/pr/1")
    store.aliases["model", "tiny"] = "acme/tiny"
    store.aliases["model", "acme/old-name"] = "acme/tiny"


def pile(store):
    repo = store.add("dataset", "monology/pile-uncopyrighted")
    files = {".gitattributes": text("", "*.zst filter=lfs\n"),
             "README.md": text("", "# Pile Uncopyrighted\n")}
    names = ["train/%02d.jsonl.zst" % i for i in range(30)]
    for name in names + ["val.jsonl.zst", "test.jsonl.zst"]:
        line = json.dumps({"text": name * 40,
                           "meta": {"pile_set_name": "Github"}}) + "\n"
        data = zstd((line * (65536 // len(line))).encode())
        files[name] = File(name, Held(data))
    repo.push(files)


def openwebtext(store):
    repo = store.add("dataset", "Skylion007/openwebtext")
    files = {"README.md": text("", "# OpenWebText\n"),
             "openwebtext.py": text("", "# loads subsets\n"),
             "dataset_infos.json": text("", "{}\n")}
    for i in range(21):
        name = "subsets/urlsf_subset%02d.tar" % i
        inner = tar([("%07d.txt" % j, b"document %d\n" % j)
                     for j in range(3)])
        data = tar([("urlsf_subset%02d-%d_data.xz" % (i, j),
                     lzma.compress(inner)) for j in range(2)])
        files[name] = File(name, Held(data))
    repo.push(files)
    repo.push({"plain_text/partial-train/%04d.parquet" % i:
               File("x.parquet", parquet(30_000 + i, i)) for i in range(10)},
              "refs/convert/parquet")
    store.aliases["dataset", "openwebtext"] = "Skylion007/openwebtext"


def parts(store, name, where, uuid, **options):
    repo = store.add("dataset", name, **options)
    files = {"README.md": text("", "# %s\n" % name)}
    for i in range(128):
        part = where + "part-%05d-%s-c000.snappy.parquet" % (i, uuid)
        files[part] = File(part, parquet(20_000 + i, (name, i)))
    repo.push(files)


def laion(store):
    parts(store, "laion/laion2B-en", "",
          "5114fd87-297e-42b0-9d11-50f1df323dfa")
    parts(store, "laion/relaion2B-en-research-safe", "",
          "339dc23d-0869-4dc0-9390-b4036fcc80c2", gated="auto")


def coyo(store):
    parts(store, "kakaobrain/coyo-700m", "data/",
          "17da4908-939c-46e5-91d0-15f256041956")


def img2dataset(store, shards=2000):
    """Three names a shard, all in one directory."""
    repo = store.add("dataset", "acme/laion-images")
    files = {"README.md": text("", "# images\n")}
    for i in range(shards):
        key = "%05d" % i
        files[key + ".tar"] = File("x", Stamped(2048, i), True)
        files[key + ".parquet"] = File("x", Stamped(512, -i - 1), True)
        files[key + "_stats.json"] = text("", '{"count": %d}\n' % i)
    repo.push(files)


def cogvlm(store):
    repo = store.add("dataset", "THUDM/CogVLM-SFT-311K")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for folder in ("llava_details-minigpt4_3500_formate",
                       "llava_instruction_single_conversation_formate"):
            for i in range(40):
                archive.writestr("%s/images/%08d.jpg" % (folder, i),
                                 Stamped(5000 + i, i).read(0, 5000 + i))
                archive.writestr("%s/labels/%08d.json" % (folder, i),
                                 json.dumps({"captions": ["图 %d" % i]}))
    name = "CogVLM-SFT-311K.zip"
    repo.push({name: File(name, Held(out.getvalue())),
               "README.md": text("", "# CogVLM-SFT-311K\n"),
               "README_zh.md": text("", "# 数据集\n")})


def huge(store):
    """A terabyte whose bytes are a function of the offset."""
    repo = store.add("dataset", "acme/huge")
    repo.push({"README.md": text("", "# huge\n"),
               "huge.bin": File("huge.bin", Stamped(1 << 40, "huge"))})


def access(store):
    """What is not for everybody."""
    for name, options in (("gated", {"gated": "manual"}),
                          ("private", {"private": True}),
                          ("disabled", {"disabled": True})):
        repo = store.add("model", "acme/" + name, **options)
        repo.push({"README.md": text("", "# %s\n" % name),
                   "config.json": text("", '{"who": "%s"}\n' % name),
                   "model.safetensors":
                       File("model.safetensors", Stamped(900_001, name))})


ALL = {function.__name__: function for function in
       (model, pile, openwebtext, laion, coyo, img2dataset, cogvlm, huge,
        access)}
