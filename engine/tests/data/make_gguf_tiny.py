"""Makes llama-tiny.gguf: the GGUF layout of a random Llama model, every tensor in another number format.

    pip install torch==2.15.0 transformers==5.24.0 gguf==0.19.0 safetensors tokenizers accelerate
    python make_gguf_tiny.py OUT_DIR

`llama-tiny.golden.safetensors` holds what transformers computes after loading the very file: `ids` (i64), `logits` (f32, eager, CPU), and
the unpermuted, decoded weights `q0` and `k0` of layer 0 (f32). `llama-tiny.tokenizer.json` holds texts and their ids by the tokenizer that the file
describes.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, HIDDEN, HEADS, KV, FFN, VOCAB = 2, 64, 4, 2, 96, 320
out = pathlib.Path(sys.argv[1])
random = np.random.default_rng(7)

TEXT = """In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was upon the
face of the deep. And the Spirit of God moved upon the face of the waters. And God said, Let there be light: and there was light.""".split("\n")
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(
    vocab_size=VOCAB, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
model = json.loads(tokenizer.to_str())["model"]
tokens = [t for t, _ in sorted(model["vocab"].items(), key=lambda kv: kv[1])]
assert len(tokens) == VOCAB

w = gguf.GGUFWriter(out / "llama-tiny.gguf", "llama")
w.add_string("general.type", "model")
w.add_block_count(LAYERS)
w.add_context_length(128)
w.add_embedding_length(HIDDEN)
w.add_feed_forward_length(FFN)
w.add_head_count(HEADS)
w.add_head_count_kv(KV)
w.add_layer_norm_rms_eps(1e-5)
w.add_rope_freq_base(10000.0)
w.add_rope_dimension_count(HIDDEN // HEADS)
w.add_vocab_size(VOCAB)
w.add_tokenizer_model("gpt2")
w.add_tokenizer_pre("smollm")
w.add_token_list(tokens)
w.add_token_types([gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens])
w.add_token_merges([" ".join(m) for m in model["merges"]])
w.add_bos_token_id(1)
w.add_eos_token_id(2)
w.add_add_bos_token(False)
w.add_chat_template("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def permuted(weights, heads):
    """As llama.cpp's converter stores q and k: the halves of each head interleaved."""
    rows, cols = weights.shape
    return weights.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def add(name, shape, kind, scale=0.12, heads=None):
    weights = (random.standard_normal(shape) * scale).astype(np.float32)
    if heads:
        weights = permuted(weights, heads)
    if kind in (T.F32, T.F16):
        w.add_tensor(name, weights.astype(np.float32 if kind == T.F32 else np.float16))
    else:
        w.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)


def norm(name):
    w.add_tensor(name, (1 + 0.2 * random.standard_normal(HIDDEN)).astype(np.float32))


add("token_embd.weight", (VOCAB, HIDDEN), T.Q8_0, 1.0)
kinds = [[T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.F16, T.BF16], [T.Q5_1, T.F32, T.Q4_1, T.BF16, T.Q4_0, T.Q5_0, T.Q8_0]]
for i in range(LAYERS):
    q, k, v, o, gate, up, down = kinds[i]
    kv = KV * HIDDEN // HEADS
    norm(f"blk.{i}.attn_norm.weight")
    add(f"blk.{i}.attn_q.weight", (HIDDEN, HIDDEN), q, heads=HEADS)
    add(f"blk.{i}.attn_k.weight", (kv, HIDDEN), k, heads=KV)
    add(f"blk.{i}.attn_v.weight", (kv, HIDDEN), v)
    add(f"blk.{i}.attn_output.weight", (HIDDEN, HIDDEN), o)
    norm(f"blk.{i}.ffn_norm.weight")
    add(f"blk.{i}.ffn_gate.weight", (FFN, HIDDEN), gate)
    add(f"blk.{i}.ffn_up.weight", (FFN, HIDDEN), up)
    add(f"blk.{i}.ffn_down.weight", (HIDDEN, FFN), down)
norm("output_norm.weight")
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

loaded = LlamaForCausalLM.from_pretrained(out, gguf_file="llama-tiny.gguf", dtype=torch.float32, attn_implementation="eager").eval()
ids = torch.from_numpy(random.integers(3, VOCAB, size=(4, 30)))
with torch.no_grad():
    logits = loaded(ids).logits
attention = loaded.model.layers[0].self_attn
save_file({"ids": ids, "logits": logits.contiguous(), "q0": attention.q_proj.weight.detach().contiguous(),
           "k0": attention.k_proj.weight.detach().contiguous()}, out / "llama-tiny.golden.safetensors")
texts = ["In the beginning", "  Let there be 1234 lights:\n\n\tand there's more", "<|im_start|>user\nHi<|im_end|>", "Grüße, 世界 🌍", ""]
tokenizer.add_special_tokens(special)
cases = [{"text": t, "ids": tokenizer.encode(t).ids} for t in texts]
(out / "llama-tiny.tokenizer.json").write_text(json.dumps(cases, indent=1) + "\n")
print(logits.std(), (out / "llama-tiny.gguf").stat().st_size, cases)
