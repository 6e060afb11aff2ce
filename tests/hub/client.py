# SPDX-License-Identifier: Apache-2.0
"""The imitated Hub under huggingface_hub: every route that it asks for."""
import hashlib
import os

from huggingface_hub import (HfApi, get_hf_file_metadata, hf_hub_download,
                             hf_hub_url, scan_cache_dir, snapshot_download)
from huggingface_hub.errors import (EntryNotFoundError, GatedRepoError,
                                    HfHubHTTPError, RepositoryNotFoundError,
                                    RevisionNotFoundError)

from expect import fails

TOKEN = "hf_goodToken"
api = HfApi(token=False)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


info = api.model_info("acme/tiny")
assert info.id == "acme/tiny" and len(info.sha) == 40
assert not info.private and info.last_modified.year == 2026
assert api.model_info("tiny").id == "acme/tiny", "an alias leads on"
assert api.model_info("acme/old-name").sha == info.sha
refs = api.list_repo_refs("acme/tiny", include_pull_requests=True)
assert [ref.name for ref in refs.branches] == ["feature/x", "main"]
assert refs.tags[0].name == "v1.0" and refs.pull_requests[0].name == "1"
assert refs.branches[1].target_commit == info.sha
commits = api.list_repo_commits("acme/tiny")
assert [commit.title for commit in commits] == ["Second", "First"]

tree = {entry.path: entry
        for entry in api.list_repo_tree("acme/tiny", recursive=True)}
assert tree["empty"].blob_id == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
shard = tree["model-00001-of-00002.safetensors"]
assert shard.lfs.sha256 and shard.lfs.size == shard.size
assert "onnx/sub/deep" in tree and len(tree) == 27, len(tree)
below = list(api.list_repo_tree("acme/tiny", "onnx/sub", recursive=True))
assert [entry.path for entry in below] == ["onnx/sub/deep",
                                           "onnx/sub/deep/config.json"]
expanded = list(api.list_repo_tree("acme/tiny", "onnx", expand=True))
assert expanded[-1].last_commit.title == "Second"
found = api.get_paths_info("acme/tiny", ["empty", "onnx", "no"], expand=True)
assert [item.path for item in found] == ["empty", "onnx"]
many = list(api.list_repo_tree("acme/laion-images", repo_type="dataset",
                               recursive=True))
assert len(many) == 6001, "listings have pages: %d" % len(many)

for revision in ("feature/x", "refs/pr/1", "v1.0", info.sha, info.sha[:9]):
    api.model_info("acme/tiny", revision=revision)
assert "pr.txt" in [e.path for e in api.list_repo_tree(
    "acme/tiny", revision="refs/pr/1")]
converted = list(api.list_repo_tree("Skylion007/openwebtext",
                                    "plain_text/partial-train",
                                    repo_type="dataset",
                                    revision="refs/convert/parquet"))
assert len(converted) == 10

# Small files straight and over the cache route, large ones from the CDN.
path = hf_hub_download("acme/tiny", "config.json")
with open(path, encoding="utf-8") as file:
    assert '"v": 2' in file.read()
old = hf_hub_download("acme/tiny", "config.json", revision="v1.0")
with open(old, encoding="utf-8") as file:
    assert '"v": 1' in file.read()
assert os.path.basename(os.path.realpath(path)) == tree["config.json"].blob_id
for name in [entry for entry in tree if entry.startswith("odd/")]:
    hf_hub_download("acme/tiny", name)
path = hf_hub_download("acme/tiny", shard.path)
assert sha256(path) == shard.lfs.sha256
meta = get_hf_file_metadata(hf_hub_url("acme/tiny", shard.path))
assert meta.etag == shard.lfs.sha256 and meta.size == shard.size
assert meta.commit_hash == info.sha and "/xet-bridge-us/" in meta.location
meta = get_hf_file_metadata(hf_hub_url("acme/tiny", "README.md"))
assert meta.etag == tree["README.md"].blob_id
snapshot_download("acme/tiny")
snapshot_download("acme/tiny", revision="refs/pr/1", allow_patterns="*.txt")

# Who may not.
fails(RepositoryNotFoundError, api.model_info, "acme/none")
fails(RepositoryNotFoundError, api.model_info, "acme/private")
fails(RevisionNotFoundError, api.model_info, "acme/tiny", revision="v9")
fails(RevisionNotFoundError, hf_hub_download, "acme/tiny", "x", revision="v9")
fails(EntryNotFoundError, hf_hub_download, "acme/tiny", "no-such-file")
fails(GatedRepoError, hf_hub_download, "acme/gated", "config.json")
error = fails(HfHubHTTPError, api.model_info, "acme/disabled")
assert error.response.status_code == 403
error = fails(HfHubHTTPError, api.model_info, "acme/tiny", token="hf_bad")
assert error.response.status_code == 401
assert not isinstance(error, RepositoryNotFoundError)
hf_hub_download("acme/gated", "model.safetensors", token=TOKEN)
hf_hub_download("acme/private", "model.safetensors", token=TOKEN)
assert api.model_info("acme/gated").gated == "manual"
assert api.whoami(token=TOKEN)["name"] == "tester"

repos = {repo.repo_id for repo in scan_cache_dir().repos}
assert {"acme/tiny", "acme/gated", "acme/private"} <= repos, repos
