# SPDX-License-Identifier: Apache-2.0
"""huggingface_hub on a cache that cannot be written: cache-view.py HOW.

HF_HUB_CACHE is the hub view of a mount. HOW: offline (HF_HUB_OFFLINE=1), online
(the Hub has what the view has), newer (it has a newer commit).
"""
import os
import sys

import huggingface_hub
from huggingface_hub import (hf_hub_download, scan_cache_dir,
                             snapshot_download, try_to_load_from_cache)
from huggingface_hub.errors import (EntryNotFoundError,
                                    LocalEntryNotFoundError)

from expect import fails

how = sys.argv[1]
cache = os.environ["HF_HUB_CACHE"]
NAME = "acme/tiny"
FOLDER = os.path.join(cache, "models--acme--tiny")


def content(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


if how == "newer":
    # Each commit is there for who names it; the branch stays where it was.
    assert content(hf_hub_download(NAME, "config.json")) == "{}"
    assert '"v": 2' in content(hf_hub_download(NAME, "config.json",
                                               local_files_only=True))
    sys.exit()

commit = content(os.path.join(FOLDER, "refs", "main"))
for name in ("config.json", "onnx/sub/deep/config.json", "odd/name#1",
             "odd/模型.txt", "empty", "model-00001-of-00002.safetensors"):
    path = hf_hub_download(NAME, name)
    assert path == os.path.join(FOLDER, "snapshots", commit, name), path
    assert os.path.islink(path) and not os.path.isabs(os.readlink(path))
assert '"v": 2' in content(hf_hub_download(NAME, "config.json"))
assert '"v": 1' in content(hf_hub_download(NAME, "config.json",
                                           revision="v1.0"))
assert content(hf_hub_download(NAME, "pr.txt", revision="refs/pr/1"))
assert content(hf_hub_download(NAME, "config.json", revision=commit))
assert content(hf_hub_download("tiny", "config.json")), "an old name"
missing = LocalEntryNotFoundError if how == "offline" else EntryNotFoundError
fails(missing, hf_hub_download, NAME, "no-such-file.json")

top = snapshot_download(NAME)
assert top == os.path.join(FOLDER, "snapshots", commit), top
assert len([name for _, _, names in os.walk(top) for name in names]) == 23
assert snapshot_download(NAME, revision="v1.0", allow_patterns="*.json")
assert try_to_load_from_cache(NAME, "config.json") == \
    os.path.join(top, "config.json")
assert try_to_load_from_cache(NAME, "none.json") is \
    huggingface_hub._CACHED_NO_EXIST

try:
    from huggingface_hub._tree_cache import read_tree_cache
except ImportError:
    pass  # an older one, which keeps no listings
else:
    tree = read_tree_cache(FOLDER, commit)
    assert len(tree) == 23, tree
    assert tree["model-00001-of-00002.safetensors"].lfs_sha256, tree

found = {repo.repo_id: repo for repo in scan_cache_dir().repos}
assert NAME in found, found
main = [revision for revision in found[NAME].revisions
        if revision.commit_hash == commit]
assert "main" in main[0].refs and main[0].nb_files == 23, main
size = sum(os.path.getsize(os.path.join(folder, name))
           for folder, _, names in os.walk(top) for name in names)
assert main[0].size_on_disk == size, (main[0].size_on_disk, size)
print(huggingface_hub.__version__, how, len(found))
