# SPDX-License-Identifier: Apache-2.0
"""Weights of DIR by all that maps or reads them: compare-weights.py DIR LOCAL."""
import os
import sys

import gguf
import numpy
import torch
from safetensors import safe_open
from safetensors.torch import load_file

top, local = sys.argv[1:]
wanted = load_file(os.path.join(local, "model.safetensors"))
assert len(wanted) > 100

with safe_open(os.path.join(top, "model.safetensors"), "pt") as file:
    assert set(file.keys()) == set(wanted)
    for name in reversed(list(file.keys())):
        assert torch.equal(file.get_tensor(name), wanted[name]), name
pickled = torch.load(os.path.join(top, "pytorch_model.bin"))
for name, tensor in pickled.items():
    assert torch.equal(tensor, wanted[name]), name
mapped = gguf.GGUFReader(os.path.join(top, "model.gguf"))
for tensor in mapped.tensors:
    assert numpy.array_equal(tensor.data.reshape(-1),
                             wanted[tensor.name].numpy().reshape(-1)), \
        tensor.name
print(len(wanted), len(pickled), len(mapped.tensors))
