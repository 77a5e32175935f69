//! The library functions against published values and error bounds, with pinned `libm` in f64 as the exact function.

use emulator::cuda_math::{Build, cosf, exp2f, expf, fast_expf, fast_logf, logf, silu, sinf, tanhf, triton_exp};
use emulator::mufu::MufuTables;

fn value(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

/// Error in units of the last place of the f32 nearest the exact value.
fn ulps(ours: u32, exact: f64) -> f64 {
    let exponent = libm::ilogb(exact).max(-126);
    (value(ours) - exact).abs() / libm::ldexp(1.0, exponent - 23)
}

fn exp(x: u32) -> u32 {
    expf(MufuTables::g80(), Build::Plain, x)
}

fn largest(operands: impl Iterator<Item = u32>, ours: impl Fn(u32) -> u32, exact: impl Fn(f64) -> f64) -> f64 {
    operands.map(|x| ulps(ours(x), exact(value(x)))).fold(0.0, f64::max)
}

/// `specs/kernel-recipes.md` 2.2 and 3.1.
#[test]
fn expf_has_the_published_value_and_error() {
    assert_eq!(exp((-4.75_f32).to_bits()), 0x3c0d_bfd7);
    let positive = largest((0x3c00_0000..0x42b0_0000).step_by(1009), exp, libm::exp);
    let negative = largest((0xbc00_0000..0xc2ae_0000).step_by(1009), exp, libm::exp);
    assert!(positive < 1.931 && negative < 1.931, "{positive} {negative}");
    assert_eq!(
        [0, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000].map(exp),
        [0x3f80_0000, 0x3f80_0000, 0x7f80_0000, 0, 0x7fff_ffff]
    );
    // Subnormal results are kept by the plain build only.
    let x = (-90.0_f32).to_bits();
    assert!(ulps(exp(x), libm::exp(-90.0)) < 2.0);
    assert_eq!(expf(MufuTables::g80(), Build::Ftz, x), 0);
}

#[test]
#[ignore = "deep: every operand of magnitude 2^-6 to 88"]
fn the_largest_error_of_expf_is_the_published_one() {
    let positive = largest(0x3c80_0000..0x42b0_0000, exp, libm::exp);
    let negative = largest(0xbc80_0000..0xc2ae_0000, exp, libm::exp);
    assert!((positive.max(negative) - 1.931).abs() < 2e-3, "{positive} {negative}");
}

#[test]
fn fast_exponentials_are_the_unit_after_a_product() {
    let tables = MufuTables::g80();
    for x in (0x3f00_0000..0x4200_0000_u32).step_by(9973) {
        // The product's rounding grows with the argument.
        let relative = (value(fast_expf(tables, x)) / libm::exp(value(x)) - 1.0).abs();
        assert!(relative < 4e-7 + 1.2e-7 * value(x), "{x:08x} {relative}");
        assert_eq!(triton_exp(tables, x), fast_expf(tables, x), "no subnormal is involved");
    }
    assert_eq!(fast_expf(tables, (-90.0_f32).to_bits()), 0);
    assert!(ulps(triton_exp(tables, (-90.0_f32).to_bits()), libm::exp(-90.0)) < 4.0);
    assert_eq!(exp2f(tables, Build::Ftz, (-127.5_f32).to_bits()), 0);
    assert!(ulps(exp2f(tables, Build::Plain, (-127.5_f32).to_bits()), libm::exp2(-127.5)) < 2.4);
}

/// The vendor's manual: logf within 1 ulp (the polynomial is a little better).
#[test]
fn logf_stays_within_an_ulp() {
    let log = |x| logf(Build::Plain, x);
    let all = (1..0x7f80_0000).step_by(40_009).chain((0x3f00_0000..0x4000_0000).step_by(1013));
    let error = largest(all.filter(|&x| x != 0x3f80_0000), log, libm::log);
    assert!(error <= 1.0, "{error}");
    let specials = [0, 0x8000_0000, 0xbf80_0000, 0x7f80_0000, 0xff80_0000, 0x7f80_0001, 0x3f80_0000].map(log);
    assert_eq!(specials, [0xff80_0000, 0xff80_0000, 0x7fff_ffff, 0x7f80_0000, 0x7fff_ffff, 0x7fff_ffff, 0]);
    assert_eq!(logf(Build::Ftz, 1), 0xff80_0000);
    let tables = MufuTables::g80();
    for x in (0x4000_0000..0x4200_0000_u32).step_by(9973) {
        assert!((value(fast_logf(tables, x)) - libm::log(value(x))).abs() < 1e-6);
    }
}

/// The vendor's manual: sinf and cosf within 2 ulp.
#[test]
fn sines_stay_within_two_ulp() {
    let sin = |x| sinf(Build::Plain, x).expect("below the limit");
    let cos = |x| cosf(Build::Plain, x).expect("below the limit");
    for sign in [0, 1 << 31] {
        let all = || (0x3000_0000..0x47ce_4780_u32).step_by(3001).map(|x| x | sign);
        let errors = (largest(all(), sin, libm::sin), largest(all(), cos, libm::cos));
        assert!(errors.0 < 2.0 && errors.1 < 2.0, "{errors:?}");
    }
    assert_eq!([0, 0x8000_0000, 0x7f80_0000, 0x7fc0_0000].map(sin), [0, 0x8000_0000, 0x7fff_ffff, 0x7fff_ffff]);
    assert_eq!([0, 0x8000_0000, 0xff80_0000].map(cos), [0x3f80_0000, 0x3f80_0000, 0x7fff_ffff]);
    let error = sinf(Build::Plain, 0x47ce_4780).expect_err("the long reduction").to_string();
    assert!(error.contains("105615") && error.contains("would settle"), "{error}");
    assert!(tanhf(Build::Plain, 0).is_err());
}

#[test]
fn silu_is_a_true_quotient() {
    for x in (0x3d00_0000..0x4200_0000_u32).step_by(9973).flat_map(|x| [x, x | 1 << 31]) {
        let exact = value(x) / (1.0 + libm::exp(-value(x)));
        assert!(ulps(silu(MufuTables::g80(), x), exact) < 3.0, "{x:08x}");
    }
}
