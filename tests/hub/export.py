# SPDX-License-Identifier: Apache-2.0
"""More formats of a model's weights: export.py DIR.

Beside DIR/model.safetensors: onnx/model.onnx, pytorch_model.bin, model.gguf.
"""
import os
import sys
import warnings

import gguf
import torch
from transformers import AutoModel, AutoTokenizer

warnings.filterwarnings("ignore")
top = sys.argv[1]
model = AutoModel.from_pretrained(top).eval()
torch.save(model.state_dict(), os.path.join(top, "pytorch_model.bin"))

writer = gguf.GGUFWriter(os.path.join(top, "model.gguf"), "bert")
for name, tensor in model.state_dict().items():
    if tensor.dtype == torch.float32:
        writer.add_tensor(name, tensor.numpy())
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

os.makedirs(os.path.join(top, "onnx"), exist_ok=True)
inputs = AutoTokenizer.from_pretrained(top)(["hello"], return_tensors="pt")
names = ["input_ids", "attention_mask", "token_type_ids"]
outputs = ["last_hidden_state", "pooler_output"]
torch.onnx.export(
    model, tuple(inputs[name] for name in names),
    os.path.join(top, "onnx", "model.onnx"), input_names=names,
    output_names=outputs, opset_version=14, dynamic_axes={
        name: {0: "batch", 1: "length"} for name in [*names, outputs[0]]})
