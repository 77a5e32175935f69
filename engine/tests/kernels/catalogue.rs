//! Every kernel at several shapes.

use engine::kernels::{
    AddNormSpec, AddSpec, AllReduceSpec, AttentionCombineSpec, AttentionSpec, BiasSpec, ChainAttentionSpec, EmbedSpec,
    GatherSpec, GemmOut, GemmSpec, GemmTile, HeadNormSpec, KernelText, KvType, RmsNormSpec, RopeStoreSpec, SiluMulSpec,
    SplitKReduceSpec, Top2Spec, Units, pad,
};

const UNITS: [Units; 2] = [Units::Special, Units::Ieee];

/// One text of every kernel and variant, at the widths of stories260K, of the embedded model, and at awkward ones.
pub fn texts() -> Vec<(String, KernelText)> {
    let mut all = Vec::new();
    let mut add = |what: String, text: KernelText| all.push((format!("{} {what}", text.name), text));
    for (hidden, ffn, vocab) in [(64, 172, 512), (192, 512, 1024), (200, 1000, 33_000), (4096, 11_008, 1)] {
        let (h, f, v) = (pad(hidden), pad(ffn), pad(vocab));
        add(format!("{hidden}"), EmbedSpec { hidden_pad: h }.build());
        add(format!("{hidden}"), GatherSpec { width: h }.build());
        add(format!("{hidden}"), AddSpec { width: h }.build());
        let norm = RmsNormSpec { hidden, hidden_pad: h, eps: 1e-5_f32.to_bits(), units: Units::Special };
        add(format!("{hidden}"), AddNormSpec(norm).build());
        for ranks in [2, 4, 8] {
            add(format!("{hidden}"), AllReduceSpec { width: h, ranks }.build());
        }
        add(format!("{vocab}"), Top2Spec { vocab, vocab_pad: v }.build());
        for units in UNITS {
            add(format!("{hidden}"), RmsNormSpec { hidden, hidden_pad: h, eps: 1e-5_f32.to_bits(), units }.build());
            add(format!("{ffn}"), SiluMulSpec { ffn_pad: f, units }.build());
            for tile in GemmTile::ALL {
                for out in [GemmOut::Bf16, GemmOut::F32, GemmOut::Partial, GemmOut::Stream] {
                    add(format!("{f}x{h}"), GemmSpec { n_pad: f, k_pad: h, tile, out, units }.build());
                }
            }
        }
        for f32_out in [false, true] {
            for stream in [None, Some(h)] {
                add(format!("{f}"), SplitKReduceSpec { n_pad: f, f32_out, stream }.build());
            }
        }
    }
    for (q_heads, kv_heads, head_dim) in [(8, 4, 8), (6, 2, 32), (3, 1, 40), (9, 3, 64), (4, 4, 96), (2, 1, 128)] {
        let head_pad = pad(head_dim);
        let what = format!("{q_heads}/{kv_heads} heads of {head_dim}");
        for kv in KvType::ALL {
            add(what.clone(), RopeStoreSpec { q_heads, kv_heads, head_dim, head_pad, kv }.build());
            add(what.clone(), ChainAttentionSpec { q_heads, kv_heads, head_dim, head_pad, kv }.build());
        }
        for (partial, kv) in [false, true].into_iter().flat_map(|p| KvType::ALL.map(|kv| (p, kv))) {
            add(what.clone(), AttentionSpec { q_heads, kv_heads, head_dim, head_pad, partial, kv }.build());
        }
        let eps = 1e-6_f32.to_bits();
        add(what.clone(), BiasSpec { width: (q_heads + 2 * kv_heads) * head_pad }.build());
        for units in UNITS {
            add(what.clone(), HeadNormSpec { q_heads, kv_heads, head_dim, head_pad, eps, units }.build());
        }
        add(what, AttentionCombineSpec { q_heads, head_dim, head_pad }.build());
    }
    all
}
