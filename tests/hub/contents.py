# SPDX-License-Identifier: Apache-2.0
"""What the files of make-datasets.py hold, by number."""
import hashlib

LAION = "part-%05d-5114fd87-297e-42b0-9d11-50f1df323dfa-c000.snappy.parquet"
COYO = ("data/part-%05d-17da4908-939c-46e5-91d0-15f256041956-c000"
        ".snappy.parquet")
CRAWL = "crawl-data/CC-MAIN-2025-21"
ZIP64_BEGIN = 4500 << 20
WORDS = "the of and to in a is that for it as was with be by on not he".split()


def words(seed, count):
    digest = hashlib.shake_128(str(seed).encode()).digest(count)
    return " ".join(WORDS[byte % len(WORDS)] for byte in digest)


def pile_shards():
    """(name, first row, rows)"""
    names = ["train/%02d.jsonl.zst" % i for i in range(30)]
    names += ["val.jsonl.zst", "test.jsonl.zst"]
    return [(name, i * 100, 100) for i, name in enumerate(names)]


def pile_row(i):
    return {"text": words(i, 200),
            "meta": {"pile_set_name": ("Github", "ArXiv", "Pile-CC")[i % 3]}}


def laion_row(i):
    return {"SAMPLE_ID": i, "URL": "https://example.com/%d.jpg" % i,
            "TEXT": words(("laion", i), 12), "HEIGHT": 300 + i % 100,
            "WIDTH": 400 + i % 100, "LICENSE": "?", "NSFW": "UNLIKELY",
            "similarity": i / 16384}


def coyo_row(i):
    text = words(("coyo", i), 10)
    return {"id": i, "url": "https://example.com/%d.png" % i, "text": text,
            "width": 640, "height": 480, "image_phash": "%016x" % i,
            "text_length": len(text), "word_count": 10,
            "num_tokens_bert": 12, "num_tokens_gpt": 11, "num_faces": i % 3,
            "clip_similarity_vitb32": 0.25, "clip_similarity_vitl14": 0.25,
            "nsfw_score_opennsfw2": 0.0, "nsfw_score_gantman": 0.0,
            "watermark_score": 0.5, "aesthetic_score_laion_v2": 5.0}


def image(key):
    """Not a picture, but as incompressible as one."""
    return b"\xff\xd8\xff\xe0" + hashlib.shake_128(
        str(key).encode()).digest(5000) + b"\xff\xd9"


def document(*number):
    return (words(number, 300) + "\n").encode()


def segments():
    """(kind, path) of every file of the crawl"""
    found = []
    for segment in ("1746990412231.65", "1746990412245.37"):
        for n in range(3):
            name = "CC-MAIN-20250512042640-20250512072640-%05d" % n
            for kind, ending in (("warc", "warc.gz"), ("wat", "warc.wat.gz"),
                                 ("wet", "warc.wet.gz"),
                                 ("robotstxt", "warc.gz")):
                found.append((kind, "%s/segments/%s/%s/%s.%s" % (
                    CRAWL, segment, kind, name, ending)))
    return found


def record_text(i):
    return words(("crawl", i), 100)


def record(kind, name, i):
    body = ("%s\r\n%s" % (name, record_text(i))).encode()
    kinds = {"wat": "metadata", "wet": "conversion"}
    return (b"WARC/1.0\r\nWARC-Type: %s\r\nWARC-Target-URI: "
            b"https://example.com/%d\r\nWARC-Date: 2025-05-12T04:26:40Z\r\n"
            b"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-%012d>\r\n"
            b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n" %
            (kinds.get(kind, "resource").encode(), i, i, len(body)) +
            body + b"\r\n\r\n")
