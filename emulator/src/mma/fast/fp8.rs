//! FP8 instructions that are issued as two f16 steps with C added last ([`Fp8ThroughF16`]), with vectors.
//!
//! In the fragments of m16n8k32 the lower two elements of every register are those of the first step, and they lie as the elements of
//! an m16n8k16 of f16 do; the upper two are those of the second.

use super::{Call, Form, Fp8AsF16, Path, Production, accumulator, at, covers};
use crate::format::Elem;
use crate::mma::convert::{Add, Sum};
use crate::mma::layout::{LANES, Layout, Register};
use crate::mma::{Fp8Split, Fp8ThroughF16};
use crate::scalar::lanes::add_rn;
use crate::simd::Level;
use crate::simd::lanes;

/// Both steps and the addition.
#[derive(Clone, Copy, Debug)]
pub(in crate::mma) struct TwoSteps {
    rule: Fp8ThroughF16,
    step: Path,
    level: Level,
}

impl TwoSteps {
    pub(super) fn new(rule: &Fp8ThroughF16, layout: &Layout, level: Level) -> Option<Self> {
        let covered = layout.shape.k == 32
            && layout.matrices == 1
            && rule.split == Fp8Split::Pairs
            && rule.step.max_terms == 16
            && covers(&rule.step)
            && level <= Level::detect();
        if !covered {
            return None;
        }
        let step = match rule.step.c {
            Elem::F16 => at::<Fp8AsF16, accumulator::F16, Production, 8, 1>(level),
            _ => at::<Fp8AsF16, accumulator::F32, Production, 8, 1>(level),
        };
        Some(Self { rule: *rule, step: Path(step?), level })
    }

    /// `d = a b + c`, for as many registers as the layout says.
    pub(super) fn run(&self, a: &[&Register], b: &[&Register], c: &[&Register], d: &mut [Register]) {
        let params = &self.rule.step;
        let count = d.len();
        let step = |upper, c: &[Register; 4]| {
            let mut d = [[0; LANES]; 4];
            let forms = [self.rule.types.a, self.rule.types.b].map(|elem| Form { elem, upper });
            let c = c.each_ref();
            self.step.run(&mut Call { params, forms, a, b, c: &c[..count], d: &mut d[..count] });
            d
        };
        let sum = step(true, &step(false, &[[0; LANES]; 4]));
        for ((sum, c), d) in sum.iter().zip(c).zip(d) {
            match self.rule.types.d {
                Elem::F16 => lanes::run::<Add>(self.level, &mut Sum { a: sum, b: c, d }),
                _ => add_rn::<false>(self.level, sum, c, d),
            }
        }
    }
}
