//! Verdicts and causes on the real engine: the embedded model on emulated devices.

mod served;

use engine::kernels::KvType;
use record::EvidenceLevel;
use served::{Serving, model};
use verifier::audit::Options;
use verifier::engine_replay::AtHand;
use verifier::ops::{Op, Point};
use verifier::plan::Mode as ReplayMode;
use verifier::replay::Machine;
use verifier::result::{Cause, ClaimKind};
use verifier::{Level, Verdict};

#[test]
fn an_honest_record_matches() {
    let served = Serving::default().serve();
    let r = served.audit();
    assert_eq!(r.verdict, Verdict::Match, "{}\n{:#?}", r.headline, r.claims);
    assert_eq!(r.level, Some(Level::S));
    let blind = served.audit_on(&AtHand::emulated(model(), 1, None), &Options::default(), false);
    assert_eq!(blind.verdict, Verdict::Match);
}

#[test]
fn threads_and_vector_instructions_change_nothing() {
    let served = Serving { extra_rows: 2, new_tokens: 3, ..Serving::default() }.serve();
    let plain = AtHand::emulated(model(), 1, Some(emulator::simd::Level::Portable));
    let a = served.audit_on(&plain, &Options::default(), true);
    assert_eq!(a, served.audit());
}

#[test]
fn another_gpu_shows_in_the_first_tensor_core_operation() {
    for level in [EvidenceLevel::S, EvidenceLevel::A] {
        let r = Serving { profile: "sm_80", level, new_tokens: 2, ..Serving::default() }.serve().audit();
        assert_eq!(r.verdict, Verdict::Mismatch);
        let Some(Cause::OtherProfile { found, origin, .. }) = r.causes.first() else { panic!("{:#?}", r.causes) };
        assert!(found.contains(&"sm_80".to_owned()), "{found:?}");
        assert_eq!(origin.as_deref(), Some("qkv of layer 0"));
    }
}

#[test]
fn two_extra_rows_explain_the_bits() {
    let r = Serving { extra_rows: 2, ..Serving::default() }.serve().audit();
    assert_eq!(r.verdict, Verdict::Mismatch);
    let Some(Cause::UnreportedRows { decode, .. }) = r.causes.first() else { panic!("{:#?} {:#?}", r.causes, r.tried) };
    assert_eq!(decode.iter().collect::<Vec<_>>(), [2]);
    assert_eq!(claim(&r, ClaimKind::Rows), Verdict::Mismatch);
}

#[test]
fn another_attention_split_is_named() {
    // Longer than two KV tiles of 32: a split of one tile changes nothing.
    let r = Serving { kv_splits: Some(3), long_prompt: 70, new_tokens: 3, ..Serving::default() }.serve().audit();
    assert_eq!(r.verdict, Verdict::Mismatch, "{}", r.headline);
    let Some(Cause::AttentionSplit { found, .. }) = r.causes.first() else { panic!("{:#?} {:#?}", r.causes, r.tried) };
    assert!(found.contains(3), "{found}");
}

#[test]
fn eight_bit_weights_are_named() {
    let alter: served::Alter = |m| m.weights.quantise(&m.config, engine::weights::Scheme::Int8PerRow);
    let r = Serving { alter, new_tokens: 2, ..Serving::default() }.serve().audit();
    let Some(Cause::QuantisedWeights { scheme, .. }) = r.causes.first() else { panic!("{:#?}", r.causes) };
    assert_eq!(scheme, "int8-symmetric-per-row/1");
}

fn flip(m: &mut engine::Model, tensor: &str, row: u32, col: u32, bit: u32) {
    let places = engine::weights::places(&m.config);
    let place = places.iter().find(|p| p.name == tensor).expect("a tensor of the model");
    *m.weights.element_mut(place, row, col).expect("inside the tensor") ^= 1 << bit;
}

#[test]
fn a_flipped_weight_bit_is_found_at_level_a() {
    let cases: [(served::Alter, &str, [u32; 3]); 4] = [
        (
            |m| flip(m, "model.layers.1.mlp.up_proj.weight", 17, 101, 12),
            "model.layers.1.mlp.up_proj.weight",
            [17, 101, 12],
        ),
        (
            |m| flip(m, "model.layers.0.self_attn.k_proj.weight", 40, 3, 13),
            "model.layers.0.self_attn.k_proj.weight",
            [40, 3, 13],
        ),
        (
            |m| flip(m, "model.layers.3.self_attn.o_proj.weight", 9, 33, 12),
            "model.layers.3.self_attn.o_proj.weight",
            [9, 33, 12],
        ),
        (
            |m| flip(m, "model.layers.2.input_layernorm.weight", 0, 5, 7),
            "model.layers.2.input_layernorm.weight",
            [0, 5, 7],
        ),
    ];
    for (alter, tensor, place) in cases {
        let real = Serving { alter, level: EvidenceLevel::A, new_tokens: 2, ..Serving::default() }.serve().audit();
        assert_eq!(real.verdict, Verdict::Mismatch, "{tensor}");
        let Some(Cause::WeightBit { tensor: t, row, column, bit, equivalent, .. }) = real.causes.first() else {
            panic!("{tensor}: {:#?} {:#?}", real.causes, real.tried)
        };
        // Some flips cannot be told apart in so few rows: a weight that nearly vanishes does so by several bits.
        let exact = (t.as_str(), [*row, *column, *bit]) == (tensor, place);
        let [r, c, b] = place;
        let listed = equivalent.contains(&format!("{tensor}[{r}, {c}] bit {b}"));
        assert!(exact || listed, "{tensor} {place:?}: {:?}", real.causes);
    }
}

/// In a model with biases and in one with norms of heads the weights behind an element are found as well.
#[test]
fn a_flipped_weight_bit_is_found_in_other_families() {
    let q_proj = "model.layers.0.self_attn.q_proj.weight";
    let alter: served::Alter = |m| flip(m, "model.layers.0.self_attn.q_proj.weight", 40, 3, 13);
    for tiny in ["qwen2-tiny", "qwen3-tiny"] {
        let honest = Serving { tiny: Some(tiny), level: EvidenceLevel::A, ..Serving::default() }.serve().audit();
        assert_eq!(honest.verdict, Verdict::Match, "{tiny}: {}", honest.headline);
        let served = Serving { alter, tiny: Some(tiny), level: EvidenceLevel::A, new_tokens: 2, ..Serving::default() };
        let r = served.serve().audit();
        assert_eq!(r.verdict, Verdict::Mismatch, "{tiny}");
        let Some(Cause::WeightBit { tensor, row, column, bit, equivalent, .. }) = r.causes.first() else {
            panic!("{tiny}: {:#?} {:#?}", r.causes, r.tried)
        };
        // As above: a weight that nearly vanishes does so by several bits.
        let exact = (tensor.as_str(), *row, *column, *bit) == (q_proj, 40, 3, 13);
        assert!(exact || equivalent.contains(&format!("{q_proj}[40, 3] bit 13")), "{tiny}: {:?}", r.causes);
    }
}

#[test]
fn a_swapped_token_and_another_seed() {
    let r = Serving { swap: Some(5), ..Serving::default() }.serve().audit();
    assert_eq!((r.verdict, claim(&r, ClaimKind::Bits)), (Verdict::Mismatch, Verdict::Match));
    let Some(Cause::TokenSwapped { tokens, .. }) = r.causes.first() else { panic!("{:#?}", r.causes) };
    assert_eq!((tokens.len(), tokens[0].rank), (1, Some(2)));

    let r = Serving { seed: Some(77), new_tokens: 6, ..Serving::default() }.serve().audit();
    let Some(Cause::OtherSeed { logged, found, .. }) = r.causes.first() else { panic!("{:#?}", r.causes) };
    assert_eq!((logged.as_str(), found.as_slice()), ("5", ["77".to_owned()].as_slice()));
}

#[test]
fn an_invariant_record_matches_by_schedule_and_by_prefill() {
    let serving = Serving { mode: engine::Mode::Invariant, chunk: Some(4), new_tokens: 3, ..Serving::default() };
    let served = serving.serve();
    for mode in [ReplayMode::Schedule, ReplayMode::Prefill] {
        let options = Options { mode, ..Options::default() };
        let r = served.audit_on(&AtHand::emulated(model(), 2, None), &options, true);
        assert_eq!(r.verdict, Verdict::Match, "{mode:?} {:#?}", r.claims);
        assert_eq!(claim(&r, ClaimKind::Rows), Verdict::Indistinguishable);
    }
}

/// A portable record has the claimed bits whatever computed it, and the audit says that it cannot tell.
#[test]
fn a_portable_record_matches_by_any_replay_and_shows_no_hardware() {
    let portable = || Serving { mode: engine::Mode::Portable, new_tokens: 2, ..Serving::default() };
    let served = Serving { profile: "sm_80", chunk: Some(4), ..portable() }.serve();
    for mode in [ReplayMode::Schedule, ReplayMode::Prefill] {
        let options = Options { mode, ..Options::default() };
        let r = served.audit_on(&AtHand::emulated(model(), 2, None), &options, true);
        assert_eq!(r.verdict, Verdict::Match, "{mode:?} {:#?}", r.claims);
        let words = |kind| r.claims.iter().find(|c| c.claim == kind).map(|c| c.detail.as_str()).unwrap();
        assert!(words(ClaimKind::Rows).contains("portable"), "{}", words(ClaimKind::Rows));
        assert_eq!(claim(&r, ClaimKind::Hardware), Verdict::Indistinguishable);
        assert!(words(ClaimKind::Hardware).contains("show no hardware"), "{}", words(ClaimKind::Hardware));
        assert!(r.alternatives.profiles.contains(&"sm_80".to_owned()), "{:?}", r.alternatives);
    }
    let alter: served::Alter = |m| flip(m, "model.layers.1.mlp.up_proj.weight", 17, 101, 12);
    let r = Serving { alter, level: EvidenceLevel::A, ..portable() }.serve().audit();
    assert_eq!(r.verdict, Verdict::Mismatch);
    let Some(Cause::WeightBit { row, column, .. }) = r.causes.first() else { panic!("{:#?} {:#?}", r.causes, r.tried) };
    assert_eq!((*row, *column), (17, 101));
    // Kernels of another mode are other kernels.
    let mut other = portable().serve();
    let invariant = Serving { mode: engine::Mode::Invariant, ..portable() }.serve();
    other.record.stack.kernels = invariant.record.stack.kernels;
    let r = other.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
    assert_eq!(r.verdict, Verdict::Unverifiable, "{}", r.headline);
}

/// The number of tensor-parallel ranks is a fact of the record: replayed as declared, and found out where it is not.
#[test]
fn tensor_parallel_ranks_show_in_the_bits() {
    let on = |mode, ranks, claims_ranks| Serving { mode, ranks, claims_ranks, new_tokens: 2, ..Serving::default() };
    for mode in engine::Mode::ALL {
        let served = on(mode, 2, 2).serve();
        assert_eq!(served.record.parallelism.known().map(|p| p.tensor), Some(2));
        let r = served.audit();
        assert_eq!(r.verdict, Verdict::Match, "{mode:?} {:#?}", r.claims);
    }
    for (ranks, claimed) in [(2, 1), (1, 2)] {
        let r = on(engine::Mode::Invariant, ranks, claimed).serve().audit();
        assert_eq!(r.verdict, Verdict::Mismatch, "{:#?}", r.claims);
        let Some(Cause::OtherDivision { ranks: found, origin, .. }) = r.causes.first() else {
            panic!("{:#?}", r.causes)
        };
        assert_eq!((*found, origin.as_deref()), (ranks, Some("o_proj of layer 0")));
    }
    // In throughput mode those who hide their ranks also hide whose splits they ran.
    let r = on(engine::Mode::Throughput, 2, 1).serve().audit();
    assert_eq!(r.verdict, Verdict::Mismatch, "{:#?}", r.claims);
    let Some(Cause::OtherDivision { ranks: 2, by_policy: true, .. }) = r.causes.first() else {
        panic!("{:#?} {:#?}", r.causes, r.tried)
    };
    // Degrees that the model cannot be divided into, and collectives that are not ours, are not verified.
    let alter = |change: fn(&mut record::inference::Parallelism)| {
        let mut served = on(engine::Mode::Invariant, 2, 2).serve();
        let mut parallelism = served.record.parallelism.known().cloned().unwrap();
        change(&mut parallelism);
        served.record.parallelism = record::Fact::Known(parallelism);
        served.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false).verdict
    };
    assert_eq!(alter(|p| p.tensor = 5), Verdict::Unverifiable);
    let ring = |p: &mut record::inference::Parallelism| {
        p.collectives.as_mut().unwrap().algorithm = record::Fact::Known("ring".into());
    };
    assert_eq!(alter(ring), Verdict::Unverifiable);
}

/// The type of the cache is a fact of the record: replayed as declared, and found out where it is not.
#[test]
fn the_type_of_the_cache_shows_in_the_bits() {
    let (bf16, fp8) = (KvType::Bf16, KvType::Fp8);
    let on = |mode, kv, claims_kv| Serving { mode, kv, claims_kv, new_tokens: 3, ..Serving::default() };
    for mode in engine::Mode::ALL {
        let served = on(mode, fp8, fp8).serve();
        assert_eq!(served.record.stack.kv.dtype, "fp8-e4m3/1");
        let r = served.audit();
        assert_eq!(r.verdict, Verdict::Match, "{mode:?} {:#?}", r.claims);
        for (kv, claimed) in [(fp8, bf16), (bf16, fp8)] {
            let r = on(mode, kv, claimed).serve().audit();
            assert_eq!(r.verdict, Verdict::Mismatch, "{:#?}", r.claims);
            let Some(Cause::KvType { claimed: stated, found, origin, .. }) = r.causes.first() else {
                panic!("{mode:?} {kv:?}: {:#?}", r.causes)
            };
            assert_eq!((stated.as_str(), found.as_str()), (claimed.id(), kv.id()));
            assert_eq!(origin.as_deref(), Some("k of layer 0"));
        }
    }
    // A type that nobody here knows, and one that the kernels are not for.
    for dtype in ["fp8-e5m2/1", "fp8", "bf16"] {
        let mut served = on(engine::Mode::Invariant, fp8, fp8).serve();
        served.record.stack.kv.dtype = dtype.into();
        let r = served.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
        assert_eq!(r.verdict, Verdict::Unverifiable, "{dtype}");
    }
}

#[test]
fn what_is_not_at_hand_is_unverifiable() {
    let mut other = Serving { new_tokens: 1, ..Serving::default() }.serve();
    other.record.model.files[0].sha256 = record::Digest::of_file(b"another model");
    let r = other.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
    assert_eq!(r.verdict, Verdict::Unverifiable);
    assert!(r.headline.contains("model files"), "{}", r.headline);

    let mut kernel = Serving { new_tokens: 1, ..Serving::default() }.serve();
    kernel.record.stack.kernels[2].ptx_sha256 = record::Digest::of_file(b"another kernel");
    let r = kernel.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
    assert_eq!(r.verdict, Verdict::Unverifiable);
    assert!(r.headline.contains("kernels"), "{}", r.headline);
}

#[test]
fn a_prompt_id_outside_the_vocabulary_is_an_error_of_its_record() {
    let mut served = Serving { new_tokens: 1, ..Serving::default() }.serve();
    served.record.requests[1].prompt[2] = u32::MAX;
    let r = served.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
    assert_eq!((r.verdict, claim(&r, ClaimKind::Schedule)), (Verdict::Error, Verdict::Error), "{}", r.headline);
    assert!(r.headline.contains("token 4294967295 at position 2"), "{}", r.headline);
}

#[test]
fn a_kernel_by_another_name_is_named_and_hides_nothing() {
    let mut served = Serving { new_tokens: 1, ..Serving::default() }.serve();
    let own = std::mem::replace(&mut served.record.stack.kernels[0].name, "fast_gemm".into());
    let r = served.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
    assert_eq!((r.verdict, claim(&r, ClaimKind::Bits)), (Verdict::Unverifiable, Verdict::Match));
    assert!(r.headline.contains("fast_gemm") && r.headline.contains(&own), "{}", r.headline);

    let mut cheat = Serving { profile: "sm_80", new_tokens: 1, ..Serving::default() }.serve();
    cheat.record.stack.kernels[0].name = "fast_gemm".into();
    let r = cheat.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
    assert_eq!(r.verdict, Verdict::Mismatch, "{}", r.headline);
}

#[test]
fn files_are_counted_on_their_own_side() {
    let mut served = Serving { new_tokens: 1, ..Serving::default() }.serve();
    let at_hand = served.record.model.files.len();
    served.record.model.files.clear();
    let r = served.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
    let files = r.identity.iter().find(|f| f.field == "model files").unwrap();
    assert!(files.declared.starts_with("0 files"), "{files:?}");
    assert!(files.found.as_ref().unwrap().starts_with(&format!("{at_hand} files")), "{files:?}");
    assert_eq!(r.verdict, Verdict::Unverifiable);
}

#[test]
fn log_probabilities_are_those_of_the_logits() {
    let mut served = Serving { new_tokens: 3, ..Serving::default() }.serve();
    let honest = |served: &served::Served| -> Vec<record::F32Bits> {
        let opened = verifier::intake::open(&served.evidence.to_file().unwrap(), &served.record).unwrap();
        let mut values = Vec::new();
        for (s, step) in served.record.steps.iter().enumerate() {
            for row in step.schedule.each_row().filter(|r| r.request == 0) {
                let Some(token) = served.record.row_id(&row).unwrap().chosen else { continue };
                let logits = &opened.row(s, row.leaf).unwrap().outputs[&Point::global(Op::LmHead)];
                let verifier::replay::Elements::F32(bits) = &logits.bits else { panic!("f32 logits") };
                let value = engine::sampler::log_probability(bits, row.position + 1, token).unwrap();
                values.push(record::F32Bits(value));
            }
        }
        values
    };
    let values = honest(&served);
    assert!(values.iter().all(|v| v.value() < 0.0 && v.value() > -10.0), "{values:?}");
    served.record.requests[0].logprobs = Some(values);
    let blind = |s: &served::Served| s.audit_on(&AtHand::emulated(model(), 2, None), &Options::default(), false);
    assert_eq!(blind(&served).verdict, Verdict::Match);
    served.record.requests[0].logprobs.as_mut().unwrap()[1].0 ^= 1;
    let r = blind(&served);
    assert_eq!((r.verdict, claim(&r, ClaimKind::Logprobs)), (Verdict::Mismatch, Verdict::Mismatch));
}

/// The single-element product that proposes weight bits gives what the kernels give.
#[test]
fn the_dot_product_is_that_of_the_kernels() {
    for mode in [engine::Mode::Throughput, engine::Mode::Stream] {
        let served = Serving { level: EvidenceLevel::A, mode, new_tokens: 2, ..Serving::default() }.serve();
        let at_hand = AtHand::emulated(model(), 2, None);
        let prepared = at_hand.prepare(&served.record).unwrap();
        let replayer = prepared.replayer.expect("everything is at hand");
        let plan = verifier::plan::Plan::new(&served.record, ReplayMode::Schedule);
        for profile in ["sm_80", "sm_90"] {
            let mut run = replayer.start(&Machine::declared(profile)).unwrap();
            for item in &plan.items {
                let rows = run.step(&item.input, &item.declared, true).unwrap();
                for (input, op) in [
                    (Point::at(1, Op::AttnNorm), Op::Qkv),
                    (Point::at(2, Op::Attention), Op::OProj),
                    (Point::at(3, Op::MlpNorm), Op::GateUp),
                    (Point::at(0, Op::SiluMul), Op::Down),
                    (Point::global(Op::FinalNorm), Op::LmHead),
                ] {
                    for row in &rows {
                        let point = Point { layer: input.layer, op };
                        let Some(out) = row.outputs.get(&point) else { continue };
                        let verifier::replay::Elements::Bf16(x) = &row.outputs[&input].bits else {
                            panic!("bf16 inputs")
                        };
                        for index in (0..out.len()).step_by(37) {
                            let w = replayer.weights(point, index as u32, 0).unwrap();
                            let sum = replayer
                                .dot(profile, (op, index as u32), x, &w.values, item.declared.of(op.name()))
                                .unwrap();
                            let expected = out.at(index).unwrap();
                            let got = if op == Op::LmHead {
                                sum
                            } else {
                                u32::from(half::bf16::from_f32(f32::from_bits(sum)).to_bits())
                            };
                            assert_eq!(got, expected, "{profile} {point} element {index}");
                        }
                    }
                }
            }
        }
    }
}

fn claim(r: &verifier::result::RecordResult, kind: ClaimKind) -> Verdict {
    r.claims.iter().find(|c| c.claim == kind).unwrap_or_else(|| panic!("{kind} was not judged")).verdict
}
