//! Nanoseconds per warp (32 lanes) of the vectorised scalar operations, at every level of this machine.
//!
//! `cargo bench -p lastbit-emulator --bench warp`. The fastest of several rounds of a plain
//! loop: enough for numbers of a few nanoseconds, and no framework to build.

use emulator::mufu::{self, MufuTables};
use emulator::scalar::lanes::{self, Warp};
use emulator::simd::Level;
use std::hint::black_box;
use std::time::Instant;

/// Operands of ordinary size, none special: exponents around one.
fn operands(seed: u32) -> Warp {
    let mut state = seed;
    std::array::from_fn(|_| {
        state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        0x3c00_0000 | (state & 0x8000_0000) | (state >> 6 & 0x03ff_ffff)
    })
}

fn measure(name: &str, mut op: impl FnMut(Level, &Warp, &Warp, &Warp, &mut Warp)) {
    const CALLS: u32 = 20_000;
    let (a, b, c) = (operands(1), operands(2), operands(3));
    let mut out = [0; 32];
    print!("{name:<16}");
    for level in Level::available() {
        let best = (0..15)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..CALLS {
                    op(level, black_box(&a), black_box(&b), black_box(&c), &mut out);
                    black_box(&out);
                }
                start.elapsed().as_nanos() as f64 / f64::from(CALLS)
            })
            .fold(f64::INFINITY, f64::min);
        print!("  {:>8} {best:7.1}", level.name());
    }
    println!();
}

fn main() {
    println!("ns per 32 lanes");
    measure("add.rn", |l, a, b, _, o| lanes::add_rn::<false>(l, a, b, o));
    measure("add.rn.ftz", |l, a, b, _, o| lanes::add_rn::<true>(l, a, b, o));
    measure("sub.rn", |l, a, b, _, o| lanes::sub_rn::<false>(l, a, b, o));
    measure("mul.rn", |l, a, b, _, o| lanes::mul_rn::<false>(l, a, b, o));
    measure("mul.rn.ftz", |l, a, b, _, o| lanes::mul_rn::<true>(l, a, b, o));
    measure("fma.rn", lanes::fma_rn::<false>);
    measure("fma.rn.ftz", lanes::fma_rn::<true>);
    measure("max", |l, a, b, _, o| lanes::max::<false>(l, a, b, o));
    measure("min.ftz", |l, a, b, _, o| lanes::min::<true>(l, a, b, o));
    measure("abs", |l, a, _, _, o| lanes::abs::<false>(l, a, o));
    measure("cvt bf16x2", |l, a, b, _, o| lanes::pack_bf16x2_rn(l, a, b, o));
    let tables = MufuTables::g80();
    measure("ex2.approx.ftz", |l, a, _, _, o| mufu::lanes::ex2(l, tables, a, o));
    measure("rcp.approx.ftz", |l, a, _, _, o| mufu::lanes::rcp(l, tables, a, o));
    measure("rsqrt.approx.ftz", |l, a, _, _, o| mufu::lanes::rsq(l, tables, a, o));
    measure("lg2.approx.ftz", |l, a, _, _, o| mufu::lanes::lg2(l, tables, a, o));
    measure("setp.lt", |l, a, b, _, o| {
        o[0] = lanes::compare(l, emulator::scalar::Compare::Lt, false, a, b);
    });
}
