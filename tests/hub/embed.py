# SPDX-License-Identifier: Apache-2.0
"""Embed two sentences: embed.py torch|onnx MODEL.

MODEL is a directory or a name, as for from_pretrained. Prints the numbers and
a digest of their bytes: one model, one digest.
"""
import hashlib
import os
import sys
import warnings

warnings.filterwarnings("ignore")
how, model = sys.argv[1:]
SENTENCES = ["The cache is warm.", "Nothing is downloaded twice."]


def by_torch():
    import torch
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    inputs = AutoTokenizer.from_pretrained(model)(
        SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(model)(**inputs).last_hidden_state
    return states.numpy(), inputs["attention_mask"].numpy()


def by_onnx():
    import onnxruntime
    from transformers import AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(model)(
        SENTENCES, padding=True, return_tensors="np")
    session = onnxruntime.InferenceSession(
        os.path.join(model, "onnx", "model.onnx"),
        providers=["CPUExecutionProvider"])
    return session.run(["last_hidden_state"], dict(inputs))[0], \
        inputs["attention_mask"]


states, mask = {"torch": by_torch, "onnx": by_onnx}[how]()
mask = mask[:, :, None].astype("f4")
means = (states * mask).sum(axis=1) / mask.sum(axis=1)
assert means.shape == (2, 384), means.shape
print(" ".join("%.4f" % number for number in means[0, :4]),
      hashlib.sha256(means.tobytes()).hexdigest())
