"""Makes the tiny models of this folder and what Hugging Face transformers computes with them.

    pip install torch==2.15.0 transformers==5.24.0 safetensors tokenizers
    python make_tiny.py OUT_DIR

Each model starts from random weights and learns for a minute, so that its top logits are well apart: a sequence's first token chooses one of a
few permutations, and every next token is that permutation of the one before. The weights are rounded to bf16. `golden.safetensors` then holds,
for sequences the training never saw, `ids` (i64) and `logits` (f32) of an eager float32 forward pass on the CPU, and `inv_freq` (f32), the
rotary frequencies transformers uses. Training is not bit-reproducible between machines; the files are committed for that reason.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCAB, LENGTH, RULES = 101, 40, 4
COMMON = dict(vocab_size=VOCAB, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              bos_token_id=0, eos_token_id=1, max_position_embeddings=128)
# Widths are no multiples of 16, where a model family allows it.
MODELS = {
    "qwen2-tiny": (Qwen2ForCausalLM, Qwen2Config(
        **COMMON, hidden_size=96, intermediate_size=200, tie_word_embeddings=False, rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "qwen3-tiny": (Qwen3ForCausalLM, Qwen3Config(
        **COMMON, hidden_size=88, intermediate_size=152, head_dim=40, tie_word_embeddings=True, rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "llama3-tiny": (LlamaForCausalLM, LlamaConfig(
        **COMMON, hidden_size=72, intermediate_size=168, head_dim=24, tie_word_embeddings=True, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32})),
    "mistral-tiny": (MistralForCausalLM, MistralConfig(
        **COMMON, hidden_size=64, intermediate_size=136, head_dim=24, sliding_window=None, tie_word_embeddings=False,
        rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})),
}


def sequences(count, generator, rules):
    rows = torch.zeros(count, LENGTH, dtype=torch.long)
    rule = torch.randint(0, RULES, (count,), generator=generator)
    rows[:, 0] = rule
    rows[:, 1] = torch.randint(RULES, VOCAB, (count,), generator=generator)
    for i in range(2, LENGTH):
        rows[:, i] = rules[rule, rows[:, i - 1]]
    return rows


def randomise(model, generator):
    """Norm weights and biases start at one and zero; here they are to matter."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                p.copy_(torch.randn(p.shape, generator=generator) * 0.5)
            elif p.ndim == 1:
                p.copy_(1 + torch.randn(p.shape, generator=generator) * 0.3)


def train(model, rules, generator):
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.0)
    steps = 900
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for step in range(steps):
        rows = sequences(64, generator, rules)
        logits = model(rows).logits
        loss = torch.nn.functional.cross_entropy(logits[:, 1:-1].reshape(-1, VOCAB), rows[:, 2:].reshape(-1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return loss.item()


def main(out):
    torch.set_num_threads(1)
    for seed, (name, (kind, config)) in enumerate(MODELS.items()):
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        rules = torch.stack([torch.cat([torch.arange(RULES), RULES + torch.randperm(VOCAB - RULES, generator=generator)])
                             for _ in range(RULES)])
        config._attn_implementation = "eager"
        model = kind(config).float()
        randomise(model, generator)
        loss = train(model, rules, generator)
        folder = pathlib.Path(out) / name
        model.to(torch.bfloat16).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)

        model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        rows = sequences(6, generator, rules)
        with torch.no_grad():
            logits = model(rows).logits
        right = (logits[:, 1:-1].argmax(-1) == rows[:, 2:]).float().mean().item()
        top = logits[:, 1:].topk(2).values
        inv_freq = model.model.rotary_emb.inv_freq.contiguous()
        save_file({"ids": rows, "logits": logits.contiguous(), "inv_freq": inv_freq}, folder / "golden.safetensors")

        words = {f"t{i}": i for i in range(VOCAB)}
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="t0"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.save(str(folder / "tokenizer.json"))
        size = (folder / "model.safetensors").stat().st_size
        print(name, "loss", round(loss, 4), "right", right, "least margin", (top[..., 0] - top[..., 1]).min().item(),
              "std", logits.std().item(), size, "bytes", {k: tuple(v.shape) for k, v in load_file(folder / "model.safetensors").items() if "layers.0" in k})


main(sys.argv[1])
