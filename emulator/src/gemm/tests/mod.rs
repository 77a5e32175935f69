//! The kernels against the integer references, on every level this machine has.

mod chain;
mod data;
mod mutants;
mod partial;
mod products;

use super::spec::Mutation;
use super::{Gemm, Product, Rows, Weights};
use crate::format::Elem::{self, Bf16, E2m3, E4m3, E5m2, F16, F32, Tf32};
use crate::mma::{Family, Instruction, Shape, Types, ZeroPolicy};
use crate::profile::Profile;
use crate::simd::Level;
use data::{Data, Kind};

/// A profile, and an instruction by family, operand types, K and accumulator.
type Case = (&'static str, Family, [Elem; 2], u32, Elem);

/// Instructions of every width of block, unit, conversion and pair of types.
const SUBJECTS: [Case; 16] = [
    ("sm_90", Family::Mma, [Bf16; 2], 16, F32),
    ("sm_80", Family::Mma, [Bf16; 2], 16, F32),
    ("sm_80", Family::Mma, [Bf16; 2], 8, F32),
    ("sm_90", Family::Wgmma, [F16; 2], 16, F32),
    ("sm_75", Family::Mma, [F16; 2], 8, F32),
    ("sm_70", Family::Mma, [F16; 2], 4, F32),
    ("sm_100", Family::Tcgen05, [F16, Bf16], 16, F32),
    ("sm_90", Family::Mma, [Tf32; 2], 8, F32),
    ("sm_80", Family::Mma, [Tf32; 2], 8, F32),
    ("sm_90", Family::Wgmma, [E4m3; 2], 32, F32),
    ("sm_89", Family::Mma, [E4m3, E5m2], 32, F32),
    ("sm_120", Family::Mma, [E4m3; 2], 32, F32),
    ("sm_100", Family::Tcgen05, [E5m2, E2m3], 32, F32),
    ("sm_90", Family::Mma, [F16; 2], 16, F16),
    ("sm_80", Family::Mma, [F16; 2], 16, F16),
    ("sm_89", Family::Mma, [E4m3, E5m2], 32, F16),
];

struct Subject {
    gemm: Gemm,
    types: [Elem; 2],
    accumulator: Elem,
    /// K of the instruction.
    k: usize,
}

impl Subject {
    fn new((profile, family, types, k, accumulator): Case, policy: ZeroPolicy) -> Self {
        let (m, n) = match (family, profile) {
            (Family::Mma, "sm_70") => (8, 8),
            (Family::Mma, _) => (16, 8),
            _ => (64, 8),
        };
        let [a, b] = types;
        let instruction = Instruction {
            family,
            ..Instruction::mma(Shape { m, n, k }, Types { d: accumulator, a, b, c: accumulator })
        };
        let profile = Profile::by_name(profile).unwrap().with_zero_policy(policy);
        let gemm = Gemm::new(&profile, &instruction).unwrap_or_else(|e| panic!("{e}"));
        Self { gemm, types, accumulator, k: k as usize }
    }

    fn data(&self, kind: Kind, shape: [usize; 3], seed: u64) -> Data {
        Data::new(kind, self.types, self.accumulator, shape, seed)
    }

    fn pack(&self, data: &Data, [m, n, k]: [usize; 3]) -> (Rows, Weights) {
        let [a, b] = self.types;
        let bytes = |words: &[u32]| words.iter().map(|&w| w as u8).collect::<Vec<_>>();
        let halves = |words: &[u32]| words.iter().map(|&w| w as u16).collect::<Vec<_>>();
        let rows = match a.format().width {
            32 => Rows::pack(a, m, k, &data.a),
            16 => Rows::pack(a, m, k, &halves(&data.a)),
            _ => Rows::pack(a, m, k, &bytes(&data.a)),
        };
        let weights = match b.format().width {
            32 => Weights::pack(b, n, k, &data.b),
            16 => Weights::pack(b, n, k, &halves(&data.b)),
            _ => Weights::pack(b, n, k, &bytes(&data.b)),
        };
        (rows.unwrap(), weights.unwrap())
    }

    /// By the integer reference, one output at a time.
    fn expected(&self, data: &Data, [m, n, k]: [usize; 3], c: bool) -> Vec<u32> {
        let padded = k.next_multiple_of(self.k);
        let pad = |rows: &[u32]| -> Vec<Vec<u32>> {
            rows.chunks(k).map(|row| row.iter().copied().chain(std::iter::repeat(0)).take(padded).collect()).collect()
        };
        let (a, b) = (pad(&data.a), pad(&data.b));
        let dot = |i: usize| self.gemm.params().dot_by(self.k, &a[i / n], &b[i % n], if c { data.c[i] } else { 0 });
        (0..m * n).map(dot).collect()
    }

    fn run(&self, data: &Data, shape: [usize; 3], c: bool, level: Level, mutation: Mutation) -> Product {
        let (x, w) = self.pack(data, shape);
        self.gemm.level(level).with(mutation, &x, &w, c.then_some(&data.c)).unwrap()
    }
}

impl crate::mma::TFdpa {
    /// Chained instructions of `k` products each.
    fn dot_by(&self, k: usize, a: &[u32], b: &[u32], c: u32) -> u32 {
        a.chunks(k).zip(b.chunks(k)).fold(c, |c, (a, b)| self.dot(a, b, c))
    }
}
