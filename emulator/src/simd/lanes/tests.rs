//! Each operation of each level against plain Rust.

use crate::scalar::{self, Mods};
use crate::simd::Level;
use crate::simd::lanes::portable::Portable;
use crate::simd::lanes::{self, Kernel, Lanes};

/// Sixteen words that mix boundaries with noise.
fn words(seed: u32) -> [u32; 16] {
    const EDGES: [u32; 12] = [
        0,
        1,
        0x8000_0000,
        0x7fff_ffff,
        0xffff_ffff,
        0x0001_0000,
        0x0000_8000,
        0x00ff_ffff,
        0x0100_0001,
        0x7f80_0000,
        0x8000,
        0x3f80_0000,
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b1) | 1;
    std::array::from_fn(|i| {
        state = state.wrapping_mul(0x2c1b_3c6d).wrapping_add(0x297a_2d39);
        let r = state ^ state >> 15;
        if r & 3 == 0 { EDGES[(r as usize >> 2) % EDGES.len()] } else { r.rotate_left(i as u32) >> (r >> 27 & 15) }
    })
}

/// Floats that convert to i32.
fn small_floats(seed: u32) -> [u32; 16] {
    words(seed).map(|w| w & 0x807f_ffff | (100 + w % 57) << 23)
}

fn apply<S: Lanes, const N: usize>(s: S, inputs: [[u32; 16]; N], f: impl Fn(S, [S::V; N]) -> S::V) -> [u32; 16] {
    let mut out = [0; 16];
    s.store(f(s, inputs.map(|i| s.load(&i))), &mut out);
    out
}

struct Check;

macro_rules! same {
    ($s:expr, $inputs:expr, |$l:ident, [$($v:ident),*]| $call:expr) => {
        assert_eq!(
            apply($s, $inputs, |$l, [$($v),*]| $call),
            apply(Portable, $inputs, |$l, [$($v),*]| $call),
            "{} of {:x?}", stringify!($call), $inputs
        )
    };
}

impl Kernel for Check {
    type Call<'a> = ();

    fn run<S: Lanes>(s: S, (): &mut ()) {
        for seed in 0..400 {
            let i = [words(4 * seed), words(4 * seed + 1), words(4 * seed + 2), words(4 * seed + 3)];
            let two = [i[0], i[1]];
            same!(s, two, |l, [a, b]| l.add(a, b));
            same!(s, two, |l, [a, b]| l.sub(a, b));
            same!(s, two, |l, [a, b]| l.and(a, b));
            same!(s, two, |l, [a, b]| l.or(a, b));
            same!(s, two, |l, [a, b]| l.max_halves(a, b));
            same!(s, two, |l, [a, b]| l.max_bytes(a, b));
            same!(s, [i[0], i[1], i[2]], |l, [p, c, t]| l.overflow(p, c, t));
            same!(s, two, |l, [a, b]| l.max_unsigned(a, b));
            same!(s, two, |l, [a, b]| l.min_unsigned(a, b));
            same!(s, two, |l, [a, b]| l.max(a, b));
            same!(s, [i[0], i[1], i[2]], |l, [t, a, o]| l.where_nonzero(t, a, o));
            same!(s, [i[0]], |l, [a]| l.clear(a, seed as u16 | 1 << (seed % 16)));
            // Halves add without carries between them, as the kernel's words do.
            let low = |w: [u32; 16]| w.map(|w| w & 0x7fff_7fff);
            same!(s, [i[0], low(i[2]), low(i[3])], |l, [t, a, b]| l.add_where_nonzero_halves(t, a, b));
            same!(s, [i[0]], |l, [a]| l.shl::<23>(a));
            same!(s, [i[0]], |l, [a]| l.shr::<24>(a));
            same!(s, [i[0].map(|w| w & 0xffff)], |l, [a]| {
                let low = l.splat(0xffff_ffff);
                // Only even lanes are specified.
                let even = l.load(&std::array::from_fn(|i| if i % 2 == 0 { u32::MAX } else { 0 }));
                l.and(l.and(l.pack_pairs(a), low), even)
            });
            for column in 0..4 {
                same!(s, i, |l, [a, b, c, d]| l.transpose([a, b, c, d])[column]);
                same!(s, i, |l, [a, b, c, d]| l.transpose_back([a, b, c, d])[column]);
            }
            let [x, y] = [s.load(&i[0]), s.load(&i[1])];
            assert_eq!(s.gt_unsigned(x, y), Portable.gt_unsigned(i[0], i[1]));
            assert_eq!(s.nonzero(x), Portable.nonzero(i[0]));
            assert_eq!(s.gt_unsigned(x, x), 0);
            assert_eq!(s.signs(x), Portable.signs(i[0]));
            same!(s, [small_floats(seed), small_floats(seed + 1)], |l, [a, b]| l.mul(a, b));
            same!(s, [small_floats(seed)], |l, [a]| l.truncate(a));
            same!(s, [i[0]], |l, [a]| l.to_float_toward_zero(a));
        }
    }
}

/// The final conversion, by the integer code.
fn converted(value: f64) -> u32 {
    let bits = value.to_bits();
    let (sign, field) = (bits >> 63, (bits >> 52 & 0x7ff) as i32);
    if value.is_nan() {
        0x7fff_ffff
    } else if value.is_infinite() {
        (sign as u32) << 31 | 0x7f80_0000
    } else if field == 0 {
        0
    } else {
        let significand = i128::from(bits & ((1 << 52) - 1) | 1 << 52);
        crate::round::rz32(if sign == 0 { significand } else { -significand }, field - 1023 - 52)
    }
}

/// The operations on f64, on floats of every size.
struct CheckF64;

/// Floats whose products, scaled by `2^e`, span what a careful column sees.
fn doubles<S: Lanes>(s: S, a: [u32; 16], b: [u32; 16], e: [u32; 16]) -> [S::D; 3] {
    let product = s.mul_f64(s.widen(s.load(&a)), s.widen(s.load(&b)));
    let scaled = s.mul_f64(product, s.power(s.load(&e)));
    [scaled, s.truncate_f64(scaled), s.add_f64(scaled, product)]
}

impl Kernel for CheckF64 {
    type Call<'a> = ();

    fn run<S: Lanes>(s: S, (): &mut ()) {
        for seed in 0..2_000 {
            let (mut a, b) = (words(3 * seed), words(3 * seed + 1));
            a[seed as usize % 16] = [0, 0x7f80_0000, 0xff80_0000, 0x8000_0000][seed as usize / 16 % 4];
            // NaNs differ in payload between instruction sets.
            let quiet = |w: [u32; 16]| w.map(|w| if w & 0x7fff_ffff > 0x7f80_0000 { 0x3fc0_0000 } else { w });
            let (a, b) = (quiet(a), quiet(b));
            let e = words(3 * seed + 2).map(|w| (w % 400).wrapping_sub(200));
            for (ours, plain) in doubles(s, a, b, e).into_iter().zip(doubles(Portable, a, b, e)) {
                let mut stored = [0.0; 16];
                s.store_f64(ours, &mut stored);
                for i in 0..16 {
                    assert!(stored[i].to_bits() == plain[i].to_bits() || stored[i].is_nan() && plain[i].is_nan());
                }
                let mut out = [0; 16];
                s.store(s.narrow_toward_zero(ours), &mut out);
                for i in 0..16 {
                    assert_eq!(out[i], converted(plain[i]), "{:e}", plain[i]);
                }
            }
        }
    }
}

#[test]
fn f64_operations_agree_with_plain_rust() {
    on_every_level::<CheckF64>();
    for x in [0.0, -0.0, 0.5, -0.75, 1.0, -1.5, 4_503_599_627_370_497.5, 1e300, f64::INFINITY, f64::MIN_POSITIVE] {
        assert_eq!(Portable.truncate_f64([x; 16])[0].to_bits(), x.trunc().to_bits(), "{x}");
    }
    assert!(Portable.truncate_f64([f64::NAN; 16])[0].is_nan());
}

/// f64 rounded to odd: a sum of two f32 of nearby size, which f64 holds, against the definition.
struct Odd;

impl Kernel for Odd {
    type Call<'a> = ();

    fn run<S: Lanes>(s: S, (): &mut ()) {
        for seed in 0..4_000 {
            let (mut a, mut b) = (small_floats(2 * seed), small_floats(2 * seed + 1));
            a[seed as usize % 16] = [0, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fff_ffff][seed as usize % 5];
            b[seed as usize % 16] = a[seed as usize % 16];
            let mut out = [0; 16];
            s.store(s.narrow_to_odd(s.add_f64(s.widen(s.load(&a)), s.widen(s.load(&b)))), &mut out);
            for i in 0..16 {
                let exact = f64::from(f32::from_bits(a[i])) + f64::from(f32::from_bits(b[i]));
                let found = f32::from_bits(out[i]);
                if exact.is_nan() {
                    assert!(found.is_nan());
                } else if f64::from(exact as f32) == exact {
                    assert_eq!(out[i], (exact as f32).to_bits(), "{exact:e}");
                } else {
                    // The neighbour of the exact value whose last bit is set.
                    assert_eq!(out[i] & 1, 1, "{exact:e}");
                    let [below, above] = [out[i] - 1, out[i] + 1].map(|bits| f64::from(f32::from_bits(bits)).abs());
                    assert!(below < exact.abs() && exact.abs() < above && (found < 0.0) == (exact < 0.0), "{exact:e}");
                }
            }
        }
    }
}

#[test]
fn rounding_to_odd_keeps_what_was_lost() {
    on_every_level::<Odd>();
}

/// The fused multiply-add, by the integer code of the scalar operation.
struct Fused;

impl Kernel for Fused {
    type Call<'a> = ();

    fn run<S: Lanes>(s: S, (): &mut ()) {
        let nan = |bits: u32| bits & 0x7fff_ffff > 0x7f80_0000;
        for seed in 0..40_000 {
            let [mut a, b, mut c] = [words(3 * seed), words(3 * seed + 1), words(3 * seed + 2)];
            for i in 0..16 {
                let product = f32::from_bits(a[i]) * f32::from_bits(b[i]);
                match (seed as usize + i) % 5 {
                    // Exponents near each other, so that c reaches the product's last bits.
                    0 => c[i] = product.to_bits().wrapping_add(c[i] % 0x1800_0000).wrapping_sub(0x0c00_0000),
                    // Cancellation, exact or nearly.
                    1 => c[i] = (-product).to_bits() ^ (c[i] & 1),
                    // Products and sums around the smallest numbers.
                    2 => (a[i], c[i]) = (a[i] & 0x81ff_ffff | 0x1000_0000, c[i] & 0x80ff_ffff),
                    _ => {}
                }
            }
            let mut out = [0; 16];
            s.store(s.fma(s.load(&a), s.load(&b), s.load(&c)), &mut out);
            for i in 0..16 {
                let expected = scalar::fma::<scalar::F32>(a[i], b[i], c[i], Mods::RN);
                let (x, y, z) = (a[i], b[i], c[i]);
                assert!(out[i] == expected || nan(out[i]) && nan(expected), "{x:x} * {y:x} + {z:x}: {:x}", out[i]);
            }
        }
    }
}

#[test]
fn fused_multiply_add_rounds_once() {
    on_every_level::<Fused>();
}

/// All f16 but NaNs, whose payload is nobody's business here.
struct Widen;

impl Kernel for Widen {
    type Call<'a> = ();

    fn run<S: Lanes>(s: S, (): &mut ()) {
        for first in (0..=0xffff_u32).step_by(16) {
            let pairs = std::array::from_fn(|i| (first + i as u32) | (0xffff - first - i as u32) << 16);
            let (low, high) = s.widen_f16(s.load(&pairs));
            let mut out = [[0; 16]; 2];
            s.store(low, &mut out[0]);
            s.store(high, &mut out[1]);
            for i in 0..16 {
                for (half, found) in [(pairs[i] & 0xffff, out[0][i]), (pairs[i] >> 16, out[1][i])] {
                    let expected = crate::format::f16_to_f32(half as u16);
                    let nan = |bits: u32| bits & 0x7fff_ffff > 0x7f80_0000;
                    assert!(found == expected || nan(found) && nan(expected), "{half:x}: {found:x} {expected:x}");
                }
            }
        }
    }
}

fn on_every_level<K: for<'a> Kernel<Call<'a> = ()>>() {
    for level in Level::available() {
        lanes::run::<K>(level, &mut ());
    }
}

#[test]
fn operations_agree_with_plain_rust() {
    on_every_level::<Check>();
}

#[test]
fn f16_widens_exactly() {
    on_every_level::<Widen>();
}

/// Portable itself, where it is cleverer than the language.
#[test]
fn conversion_toward_zero_keeps_the_top_24_bits() {
    for sum in [0, 1, -1, 0x00ff_ffff, 0x01ff_ffff, 0x7fff_ffff, -0x7fff_ffff, i32::MIN, -0x0100_0001] {
        let found = Portable.to_float_toward_zero([sum as u32; 16])[0];
        assert_eq!(found, crate::round::rz32(i128::from(sum), 0), "{sum}");
    }
}
