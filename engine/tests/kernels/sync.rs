//! Every barrier and wait is needed, and the checker knows: without any one of them it objects.

use engine::kernels::{
    AttentionSpec, GemmOut, GemmSpec, GemmTile, KernelText, KvType, PAGE, RmsNormSpec, TOP2_WORDS, Top2Spec, Units,
};

use crate::arith::Gpu;
use crate::data::Rng;
use crate::rig::{In, Out, U32, Value, objection};

/// Instructions that order memory.
const ORDERING: [&str; 4] = ["bar.sync", "bar.warp.sync", "cp.async.wait_group", "cp.async.commit_group"];

/// The text with one ordering instruction left out, for each of them.
fn mutants(text: &KernelText) -> Vec<(String, KernelText)> {
    let lines: Vec<&str> = text.ptx.lines().collect();
    let ordering = (0..lines.len()).filter(|&i| ORDERING.iter().any(|op| lines[i].trim_start().starts_with(op)));
    ordering
        .map(|left_out| {
            let rest = lines.iter().enumerate().filter(|&(i, _)| i != left_out).map(|(_, line)| *line);
            let ptx = rest.flat_map(|line| [line, "\n"]).collect();
            (
                format!("{} without line {}, {}", text.name, left_out + 1, lines[left_out].trim()),
                KernelText { ptx, ..text.clone() },
            )
        })
        .collect()
}

fn all_needed(gpu: &Gpu, text: &KernelText, grid: [u32; 3], args: &[Value], expected: usize) {
    assert!(objection(gpu, text, grid, args).is_none(), "{}", text.name);
    let mutants = mutants(text);
    assert_eq!(mutants.len(), expected, "{}: ordering instructions", text.name);
    for (what, mutant) in mutants {
        match objection(gpu, &mutant, grid, args) {
            Some(error) => println!("{what}: {error}"),
            None => panic!("the checker does not mind {what}"),
        }
    }
}

#[test]
fn gemm_needs_its_waits_and_barriers() {
    let mut rng = Rng::new(50);
    let gpu = Gpu::named("sm_90");
    // Three stages, so that both buffers are used twice.
    let (rows, n_pad, k_pad) = (20, 64, 192);
    let (x, w) = (rng.activations((rows * k_pad) as usize), rng.bf16s((n_pad * k_pad) as usize, 0.1));
    for (tile, units) in GemmTile::ALL.into_iter().flat_map(|t| [(t, Units::Special), (t, Units::Ieee)]) {
        let spec = GemmSpec { n_pad, k_pad, tile, out: GemmOut::F32, units };
        let args = [In(&x), In(&w), Out(rows * n_pad * 4), U32(rows)];
        // A commit before the loop and one in it, a wait, a barrier.
        all_needed(&gpu, &spec.build(), spec.grid(rows, 1), &args, 4);
    }
}

#[test]
fn attention_needs_its_waits_and_barriers() {
    let mut rng = Rng::new(51);
    let gpu = Gpu::named("sm_90");
    let spec = AttentionSpec { q_heads: 2, kv_heads: 1, head_dim: 32, head_pad: 32, partial: false, kv: KvType::Bf16 };
    // Positions 70 to 75: two KV tiles that every row sees whole, one that not, so that both loops are gone through.
    let (rows, pages) = (6u32, 5u32);
    let q = rng.bf16s((rows * 2 * 32) as usize, 1.0);
    let cache = rng.bf16s((pages * PAGE * 32) as usize, 1.0);
    let (tiles, table) = (vec![0, 0, rows, 70], (0..pages).collect::<Vec<u32>>());
    let out = Out(rows * 2 * 32 * 2);
    let args = [In(&q), In(&cache), In(&cache), In(&tiles), In(&table), out, U32(rows), U32(1), U32(pages)];
    let text = spec.build();
    assert!(objection(&gpu, &text, spec.grid(1, 1), &args).is_none());
    // The commit in the second loop closes a group only where two edge tiles follow each other.
    let two_edges = vec![0, 0, rows, 60];
    let more = [In(&q), In(&cache), In(&cache), In(&two_edges), In(&table), out, U32(rows), U32(1), U32(pages)];
    for (what, mutant) in mutants(&text) {
        let found = [&args, &more].into_iter().find_map(|args| objection(&gpu, &mutant, spec.grid(1, 1), args));
        println!("{what}: {}", found.unwrap_or_else(|| panic!("the checker does not mind {what}")));
    }
    assert_eq!(mutants(&text).len(), 7, "a commit before the loops; a commit, a wait, a barrier in each");
}

#[test]
fn rmsnorm_and_top2_need_their_barriers() {
    let mut rng = Rng::new(52);
    let gpu = Gpu::named("sm_90");
    let (hidden, hidden_pad) = (190, 192);
    let (x, w) = (rng.activations(2 * 192), rng.bf16s(192, 1.0));
    let spec = RmsNormSpec { hidden, hidden_pad, eps: 1e-5_f32.to_bits(), units: Units::Special };
    all_needed(&gpu, &spec.build(), spec.grid(2), &[In(&x), In(&w), Out(2 * 192 * 2), U32(2)], 1);

    let (vocab, vocab_pad) = (4000, 4000);
    let logits: Vec<u32> = (0..4000).map(|_| rng.normal().to_bits()).collect();
    let spec = Top2Spec { vocab, vocab_pad };
    all_needed(&gpu, &spec.build(), spec.grid(1), &[In(&logits), Out(TOP2_WORDS * 4), U32(1)], 1);
}
