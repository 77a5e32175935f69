//! A machine of a few lines whose every output is a hash of what it depends on: whatever changes, bits change, and nothing else does.

use record::inference::Decode;
use std::collections::BTreeMap;

pub const GREEDY: &str = "greedy-lowest-id/1";
pub const GUMBEL: &str = "gumbel-philox4x32-10/1";

use verifier::ops::{Op, Point};
use verifier::replay::*;

pub const LAYERS: u32 = 2;
pub const WIDTH: usize = 4;
pub const VOCAB: usize = 16;

/// SplitMix64 over a list of words.
pub fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |h, w| {
        let mut z = (h ^ w).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    })
}

/// A finite bf16 pattern.
fn pattern(words: &[u64]) -> u16 {
    mix(words) as u16 & 0xbfff
}

/// Names of the weights of a matrix product and their rows.
fn matrix(op: Op) -> Option<(&'static str, usize)> {
    match op {
        Op::Qkv => Some(("qkv", 3 * WIDTH)),
        Op::OProj => Some(("o_proj", WIDTH)),
        Op::GateUp => Some(("gate_up", 2 * WIDTH)),
        Op::Down => Some(("down", WIDTH)),
        Op::LmHead => Some(("lm_head", VOCAB)),
        _ => None,
    }
}

#[derive(Clone)]
pub struct Toy {
    pub profiles: Vec<&'static str>,
    pub policy_known: bool,
}

impl Default for Toy {
    fn default() -> Self {
        Self { profiles: vec!["sm_80", "sm_86", "sm_90"], policy_known: true }
    }
}

/// sm_80 and sm_86 are one class here.
fn arithmetic(profile: &str) -> u64 {
    match profile {
        "sm_80" | "sm_86" => 1,
        _ => 2,
    }
}

fn name(point: Point) -> String {
    let op = if matches!(point.op, Op::K | Op::V) { Op::Qkv } else { point.op };
    Point { op, ..point }.path()
}

struct ToyRun {
    machine: Machine,
    /// K and V columns by request, layer and position.
    cache: BTreeMap<(u32, u32, u32), [Vec<u16>; 2]>,
}

impl ToyRun {
    fn weight(&self, tensor: &str, row: usize, column: usize) -> u16 {
        let tag = tensor.bytes().fold(0_u64, |h, b| h.wrapping_mul(131) + u64::from(b));
        let w = pattern(&[7, tag, row as u64, column as u64]);
        match &self.machine.weights {
            WeightChange::None => w,
            WeightChange::Quantised(scheme) => w & if scheme == "coarse" { 0xff00 } else { 0xfff0 },
            WeightChange::Bit(b) if b.tensor == tensor && b.row as usize == row && b.column as usize == column => {
                w ^ 1 << b.bit
            }
            WeightChange::Bit(_) | WeightChange::Divided { .. } | WeightChange::Cache(_) => w,
        }
    }

    fn product(&self, point: Point, x: &[u16], splits: u32) -> Vec<u32> {
        let (_, rows) = matrix(point.op).expect("a matrix product");
        let row = |r| (0..WIDTH).map(|c| self.weight(&point.path(), r, c)).collect::<Vec<_>>();
        (0..rows).map(|r| dot(&self.machine.profile, x, &row(r), splits)).collect()
    }
}

fn dot(profile: &str, x: &[u16], w: &[u16], splits: u32) -> u32 {
    let words: Vec<u64> = x.iter().chain(w).map(|b| u64::from(*b)).collect();
    let h = mix(&[arithmetic(profile), u64::from(splits), mix(&words)]);
    u32::from(h as u16 & 0xbfff) << 16
}

fn bf(bits: Vec<u16>) -> Tensor {
    Tensor::bf16(vec![bits.len() as u64], bits)
}

fn high(bits: &[u32]) -> Vec<u16> {
    bits.iter().map(|b| (b >> 16) as u16).collect()
}

fn each(tag: u64, a: &[u16], b: &[u16]) -> Vec<u16> {
    a.iter().zip(b).map(|(x, y)| pattern(&[tag, u64::from(*x), u64::from(*y)])).collect()
}

impl Run for ToyRun {
    fn step(&mut self, input: &StepInput, splits: &Splits, taps: bool) -> Result<Vec<Row>, ReplayError> {
        let mut rows = Vec::new();
        for group in &input.groups {
            for (i, token) in group.tokens.iter().enumerate() {
                let position = group.start + i as u32;
                let mut out: BTreeMap<Point, Tensor> = BTreeMap::new();
                let mut x: Vec<u16> = (0..WIDTH).map(|c| self.weight("embed", *token as usize, c)).collect();
                out.insert(Point::global(Op::Embed), bf(x.clone()));
                for layer in 0..LAYERS {
                    let at = |op| Point::at(layer, op);
                    let norm = |me: &Self, op: Op, x: &[u16]| -> Vec<u16> {
                        let r = mix(&x.iter().map(|b| u64::from(*b)).collect::<Vec<_>>());
                        let w = |c| u64::from(me.weight(&at(op).path(), 0, c));
                        (0..WIDTH).map(|c| pattern(&[1, r, u64::from(x[c]), w(c)])).collect()
                    };
                    let normed = norm(self, Op::AttnNorm, &x);
                    let qkv = high(&self.product(at(Op::Qkv), &normed, splits.of("qkv")));
                    let k: Vec<u16> = qkv[WIDTH..2 * WIDTH]
                        .iter()
                        .map(|b| pattern(&[2, u64::from(*b), u64::from(position)]))
                        .collect();
                    let v = qkv[2 * WIDTH..].to_vec();
                    self.cache.insert((group.request, layer, position), [k.clone(), v.clone()]);
                    let mut seen = vec![u64::from(splits.of("attention")), arithmetic(&self.machine.profile)];
                    for p in 0..=position {
                        let [k, v] = &self.cache[&(group.request, layer, p)];
                        seen.extend(k.iter().chain(v).map(|b| u64::from(*b)));
                    }
                    let seen = mix(&seen);
                    let attention: Vec<u16> = qkv[..WIDTH].iter().map(|q| pattern(&[3, u64::from(*q), seen])).collect();
                    let o = high(&self.product(at(Op::OProj), &attention, splits.of("o_proj")));
                    let residual = each(4, &x, &o);
                    let mlp = norm(self, Op::MlpNorm, &residual);
                    let gate_up = high(&self.product(at(Op::GateUp), &mlp, splits.of("gate_up")));
                    let silu = each(5, &gate_up[..WIDTH], &gate_up[WIDTH..]);
                    let down = high(&self.product(at(Op::Down), &silu, splits.of("down")));
                    x = each(6, &residual, &down);
                    let all = [
                        (Op::AttnNorm, normed),
                        (Op::Qkv, qkv.clone()),
                        (Op::RopeQ, qkv[..WIDTH].to_vec()),
                        (Op::K, k),
                        (Op::V, v),
                        (Op::Attention, attention),
                        (Op::OProj, o),
                        (Op::AttnResidual, residual),
                        (Op::MlpNorm, mlp),
                        (Op::GateUp, gate_up),
                        (Op::SiluMul, silu),
                        (Op::Down, down),
                        (Op::MlpResidual, x.clone()),
                    ];
                    out.extend(all.into_iter().map(|(op, bits)| (at(op), bf(bits))));
                }
                if i + group.logits as usize >= group.tokens.len() {
                    let logits = self.product(Point::global(Op::LmHead), &x, splits.of("lm_head"));
                    out.insert(Point::global(Op::FinalNorm), bf(x));
                    out.insert(Point::global(Op::LmHead), Tensor::f32(vec![VOCAB as u64], logits));
                }
                if !taps {
                    out.retain(|p, _| matches!(p.op, Op::Embed | Op::K | Op::V | Op::MlpResidual | Op::LmHead));
                }
                rows.push(Row { request: group.request, position, outputs: out });
            }
        }
        Ok(rows)
    }
}

/// Every token, the best first.
fn order(decode: &Decode, logits: &[u32], position: u32) -> Result<Vec<u32>, ReplayError> {
    let score = |id: u32| -> Result<i64, ReplayError> {
        let bits = logits[id as usize];
        match decode.sampler.as_str() {
            GREEDY => Ok((f32::from_bits(bits) as f64 * 1e6) as i64),
            GUMBEL => {
                let seed = decode.seed.map_or(0, |s| s.0);
                Ok((mix(&[u64::from(bits), seed, u64::from(position), u64::from(id)]) >> 8) as i64)
            }
            other => Err(ReplayError::Unknown { what: format!("sampler {other}") }),
        }
    };
    let mut order: Vec<(i64, u32)> = Vec::new();
    for id in 0..logits.len() as u32 {
        order.push((-score(id)?, id));
    }
    order.sort_unstable();
    Ok(order.into_iter().map(|(_, id)| id).collect())
}

impl Replayer for Toy {
    fn start(&self, machine: &Machine) -> Result<Box<dyn Run + '_>, ReplayError> {
        if !self.profiles.contains(&machine.profile.as_str()) {
            return Err(ReplayError::Unknown { what: format!("profile {}", machine.profile) });
        }
        Ok(Box::new(ToyRun { machine: machine.clone(), cache: BTreeMap::new() }))
    }

    fn policy(&self, shape: &Shape) -> Result<Splits, ReplayError> {
        if !self.policy_known {
            return Err(ReplayError::Unknown { what: "policy toy/9".into() });
        }
        // Classes {1}, {2, 3}, {4, 5}, {6 and more}, as real stacks have them.
        let (slices, ranges) = match shape.rows {
            0 | 1 => (4, 3),
            2 | 3 => (3, 2),
            4 | 5 => (2, 2),
            _ => (1, 1),
        };
        Ok(Splits::new([
            ("qkv".into(), slices),
            ("down".into(), slices),
            ("attention".into(), ranges.min(1 + shape.longest_kv / 4)),
        ]))
    }

    fn splittable(&self) -> Vec<String> {
        ["qkv", "attention", "o_proj", "gate_up", "down", "lm_head"].map(str::to_owned).to_vec()
    }

    fn profiles(&self) -> Vec<String> {
        self.profiles.iter().map(|p| (*p).to_owned()).collect()
    }

    fn schemes(&self) -> Vec<String> {
        vec!["coarse".into(), "fine".into()]
    }

    fn choose(&self, decode: &Decode, _: Past<'_>, logits: &[u32], position: u32) -> Result<u32, ReplayError> {
        Ok(order(decode, logits, position)?[0])
    }

    fn rank(
        &self,
        decode: &Decode,
        _: Past<'_>,
        logits: &[u32],
        position: u32,
        token: u32,
    ) -> Result<Option<u32>, ReplayError> {
        Ok(order(decode, logits, position)?.iter().position(|id| *id == token).map(|r| r as u32 + 1))
    }

    fn vocabulary(&self) -> u32 {
        VOCAB as u32
    }

    fn positions(&self) -> u32 {
        64
    }

    fn logprob(&self, logits: &[u32], _position: u32, token: u32) -> Result<u32, ReplayError> {
        let words: Vec<u64> = logits.iter().map(|b| u64::from(*b)).chain([u64::from(token)]).collect();
        Ok(mix(&words) as u32)
    }

    fn text_has(&self, ids: &[u32], strings: &[String]) -> Result<bool, ReplayError> {
        let text: String = ids.iter().map(|id| letter(*id)).collect();
        Ok(strings.iter().any(|s| text.contains(s.as_str())))
    }

    fn weights(&self, point: Point, index: u32, token: u32) -> Option<WeightRow> {
        let honest = ToyRun { machine: Machine::declared("sm_90"), cache: BTreeMap::new() };
        let row = |tensor: String, row: u32| {
            let values = (0..WIDTH).map(|c| honest.weight(&tensor, row as usize, c)).collect();
            Some(WeightRow { tensor, row, first_column: 0, values, bias: None })
        };
        let element = |tensor: String, row: u32| {
            let values = vec![honest.weight(&tensor, row as usize, index as usize)];
            Some(WeightRow { tensor, row, first_column: index, values, bias: None })
        };
        match point.op {
            Op::Embed => element("embed".into(), token),
            Op::AttnNorm | Op::MlpNorm => element(point.path(), 0),
            Op::V => row(name(point), 2 * WIDTH as u32 + index),
            op if matrix(op).is_some() => row(name(point), index),
            _ => None,
        }
    }

    fn dot(&self, profile: &str, _: (Op, u32), x: &[u16], w: &[u16], splits: u32) -> Result<u32, ReplayError> {
        Ok(dot(profile, x, w, splits))
    }

    fn embeddings(&self, bits: &[u16]) -> Vec<u32> {
        let honest = ToyRun { machine: Machine::declared("sm_90"), cache: BTreeMap::new() };
        let of = |t: u32| (0..WIDTH).map(|c| honest.weight("embed", t as usize, c)).collect::<Vec<_>>();
        (0..VOCAB as u32).filter(|t| of(*t) == bits).collect()
    }
}

/// How an id reads.
pub fn letter(id: u32) -> char {
    char::from_u32(u32::from('a') + id).unwrap_or('?')
}
