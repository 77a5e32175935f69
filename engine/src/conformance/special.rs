//! The special function unit: a probe is one `.approx` instruction for one thread an operand.
//!
//! Every function, with `.ftz` and without. What nobody has a model of (`sqrt`, `tanh`) cannot be compared; what the subject gives is kept
//! all the same, since that is what a model could be made from.

use emulator::mufu::Function;
use ptx::ast::{Approx, Op, Type};
use ptx::builder::{F32, KernelBuilder, Register as _, Source as _};

use super::Part;
use super::bench::{Given, Pair, Tally, hex_elements, text};
use super::data::{Rng, bytes32};
use crate::error::Result;
use crate::kernels::KernelText;

const THREADS: u32 = 256;
/// Operands of a usual run.
const USUAL: usize = 1 << 15;
/// Operands of a launch of a deep run.
const CHUNK: u64 = 1 << 22;

/// The functions; `tanh` has no form with `.ftz`.
const FUNCTIONS: [(Function, Approx, bool); 15] = [
    (Function::Rcp, Approx::Rcp, true),
    (Function::Rsq, Approx::Rsqrt, true),
    (Function::Ex2, Approx::Ex2, true),
    (Function::Lg2, Approx::Lg2, true),
    (Function::Sin, Approx::Sin, true),
    (Function::Cos, Approx::Cos, true),
    (Function::Sqrt, Approx::Sqrt, true),
    (Function::Rcp, Approx::Rcp, false),
    (Function::Rsq, Approx::Rsqrt, false),
    (Function::Ex2, Approx::Ex2, false),
    (Function::Lg2, Approx::Lg2, false),
    (Function::Sin, Approx::Sin, false),
    (Function::Cos, Approx::Cos, false),
    (Function::Sqrt, Approx::Sqrt, false),
    (Function::Tanh, Approx::Tanh, false),
];

/// The probes: an instruction, its function and its kernel.
#[must_use]
pub fn probes() -> Vec<(String, Function, KernelText)> {
    FUNCTIONS
        .into_iter()
        .map(|(function, f, ftz)| {
            let what = format!("{f}.approx{}.f32", if ftz { ".ftz" } else { "" });
            let kernel = probe(&format!("probe_{}", what.replace('.', "_")), f, ftz);
            (what, function, kernel)
        })
        .collect()
}

/// `d[i] = f(a[i])` for `i < count`.
fn probe(name: &str, f: Approx, ftz: bool) -> KernelText {
    let mut k = KernelBuilder::new(name);
    k.max_ntid(THREADS, 1, 1);
    let (a, d, count) = (k.param_ptr("a"), k.param_ptr("d"), k.param_u32("count"));
    let (cta, tid) = (k.ctaid_x(), k.tid_x());
    let i = k.mad_lo_u32(cta, THREADS, tid);
    let inside = k.setp_lt_u32(i, count);
    k.if_(inside, |k| {
        let from = k.mad_wide_u32(i, 4, a);
        let x: F32 = k.ld_global(from, 0);
        let y: F32 = k.fresh();
        k.emit(Op::Approx { f, ty: Type::F32, ftz, d: y.reg(), a: x.operand() });
        let to = k.mad_wide_u32(i, 4, d);
        k.st_global(to, 0, y);
    });
    text(k.finish(), THREADS)
}

/// Every exponent of both signs with fractions at the ends and within, then any bits.
fn operands() -> Vec<u32> {
    let mut rng = Rng::new(0x6d75_6675);
    let mut out = Vec::with_capacity(USUAL);
    for sign_and_exponent in 0..512u32 {
        let fractions = [0, 1, 0x0040_0000, 0x007f_ffff];
        out.extend(fractions.map(|f| sign_and_exponent << 23 | f));
        out.extend((0..24).map(|_| sign_and_exponent << 23 | rng.next() as u32 & 0x007f_ffff));
    }
    out.extend(rng.any32(USUAL - out.len()));
    out
}

fn args<'a>(x: &'a [u8]) -> [Given<'a>; 3] {
    [Given::In(x), Given::Out(x.len()), Given::U32(x.len() as u32 / 4)]
}

fn grid(x: &[u8]) -> [u32; 3] {
    [(x.len() as u32 / 4).div_ceil(THREADS), 1, 1]
}

pub(super) fn run(pair: &mut Pair<'_>, deep: bool) -> Result<()> {
    let usual = bytes32(&operands());
    for (what, function, kernel) in probes() {
        let kept = |pair: &mut Pair<'_>, y: &[u8]| {
            let fields =
                [("op", what.clone().into()), ("a", hex_elements(&usual, 4).into()), ("d", hex_elements(y, 4).into())];
            pair.answer(Part::Special, &fields)
        };
        let both = match pair.probe(&kernel)? {
            Ok(both) => both,
            Err(why) => {
                let y = match function.model() {
                    Ok(()) => None,
                    Err(_) => pair.subject_alone(&kernel, grid(&usual), &args(&usual))?,
                };
                if let Some(y) = y {
                    kept(pair, &y[0])?;
                    pair.not_covered(Part::Special, &what, format!("{why}; {USUAL} answers recorded"));
                } else {
                    pair.not_covered(Part::Special, &what, why);
                }
                continue;
            }
        };
        let mut tally = Tally::default();
        let outputs = pair.launch(both, grid(&usual), &args(&usual))?;
        compare(&mut tally, &usual, &outputs.subject[0], &outputs.reference[0]);
        kept(pair, &outputs.subject[0])?;
        if deep {
            for start in (0..1u64 << 32).step_by(CHUNK as usize) {
                let x: Vec<u32> = (start..start + CHUNK).map(|x| x as u32).collect();
                let x = bytes32(&x);
                let outputs = pair.launch(both, grid(&x), &args(&x))?;
                compare(&mut tally, &x, &outputs.subject[0], &outputs.reference[0]);
            }
        }
        pair.row(Part::Special, &what, tally);
    }
    Ok(())
}

fn compare(tally: &mut Tally, x: &[u8], found: &[u8], expected: &[u8]) {
    for ((x, f), e) in x.chunks_exact(4).zip(found.chunks_exact(4)).zip(expected.chunks_exact(4)) {
        tally.add(f == e, || {
            let [x, f, e] = [x, f, e].map(|w| hex_elements(w, 4));
            format!("of {x}: {f}, expected {e}")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_keep_the_rules_and_operands_meet_every_exponent() {
        for (what, _, kernel) in probes() {
            assert!(crate::device::prepare_probe(&kernel).is_ok(), "{what}");
        }
        let x = operands();
        assert_eq!(x.len(), USUAL);
        for top in 0..512 {
            assert!(x.iter().filter(|&&x| x >> 23 == top).count() >= 28, "{top}");
        }
    }
}
