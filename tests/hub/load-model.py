# SPDX-License-Identifier: Apache-2.0
"""What transformers reads before it computes: load-model.py MODEL [DIR].

MODEL is a name or a directory; with DIR, its weights as well. Prints the tokens
of a sentence, and a digest of the weights.
"""
import hashlib
import os
import sys

from safetensors import safe_open
from transformers import AutoConfig, AutoTokenizer

config = AutoConfig.from_pretrained(sys.argv[1])
assert config.model_type == "bert" and config.hidden_size == 384
tokens = AutoTokenizer.from_pretrained(sys.argv[1])
print(*tokens("Nothing is downloaded twice.")["input_ids"])
if len(sys.argv) > 2:
    digest = hashlib.sha256()
    weights = os.path.join(sys.argv[2], "model.safetensors")
    with safe_open(weights, framework="np") as file:
        for name in sorted(file.keys()):
            digest.update(name.encode() + file.get_tensor(name).tobytes())
    print(digest.hexdigest())
