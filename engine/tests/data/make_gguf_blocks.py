"""Random blocks of every GGUF number format, and their values by the Python package gguf.

    pip install gguf==0.19.0 numpy
    python make_gguf_blocks.py > gguf-blocks.txt

One line a row of a tensor: format, bytes in hex, f32 bits of its values in hex. The last two rows of a format have extreme scales: f16
subnormals and the largest f16.
"""

import gguf
import numpy as np

TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K".split()
# Where the f16 scales of a block lie.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}

random = np.random.default_rng(2026)
for name in TYPES:
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    for row in range(6 if elements == 256 else 10):
        data = random.integers(0, 256, size=(1, size * (8 if elements == 1 else 1)), dtype=np.uint8)
        for at in SCALES.get(name, []):
            scale = np.float16(random.normal() * 0.01)
            last = 6 if elements == 256 else 10
            if row == last - 2:
                scale = random.integers(1, 1024, dtype=np.uint16).view(np.float16)
            if row == last - 1:
                scale = np.float16(-65504.0)
            data[0, at:at + 2] = np.frombuffer(scale.tobytes(), np.uint8)
        if elements == 1:
            # Finite numbers only: an exponent of all ones becomes one less.
            plain = data.view({"F32": np.uint32, "F16": np.uint16, "BF16": np.uint16}[name]).copy()
            top = {"F32": 0x7F800000, "F16": 0x7C00, "BF16": 0x7F80}[name]
            lowest = {"F32": 0x00800000, "F16": 0x0400, "BF16": 0x0080}[name]
            plain[(plain & top) == top] ^= lowest
            data = plain.view(np.uint8)
        values = gguf.quants.dequantize(data, kind).astype(np.float32)
        bits = values.reshape(-1).view(np.uint32)
        print(name, data.tobytes().hex(), "".join(f"{b:08x}" for b in bits))
