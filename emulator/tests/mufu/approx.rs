//! The wrappers of the unit: `.approx` without `.ftz`, and division.

use emulator::mufu::approx::{Subnormals, Switches, div_approx, ex2_approx, lg2_approx, rcp_approx, rsqrt_approx};
use emulator::mufu::{self, MufuTables};
use emulator::scalar::{self, F32, Mods};

const SCALED: Switches = Switches { subnormals: Subnormals::Scaled, ..Switches::DEFAULT };
const FLUSHED: Switches = Switches { subnormals: Subnormals::Flushed, ..Switches::DEFAULT };
const SIGN: u32 = 1 << 31;

fn value(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

/// Any exact scaling gives these bits: here by 2^40 in f64, and one host rounding.
#[test]
fn reciprocals_keep_subnormals() {
    let tables = MufuTables::g80();
    let two_40 = libm::ldexp(1.0, 40);
    let scale = |x: u32, factor: f64| ((value(x) * factor) as f32).to_bits();
    for x in (1..0x0080_0000_u32).step_by(331) {
        let expected = (value(mufu::rcp(tables, scale(x, two_40))) * two_40) as f32;
        assert_eq!(rcp_approx(tables, SCALED, x), expected.to_bits(), "{x:08x}");
        assert_eq!(rcp_approx(tables, FLUSHED, x), 0x7f80_0000);
    }
    for x in (0x7e80_0001..0x7f80_0000_u32).step_by(331) {
        let expected = (value(mufu::rcp(tables, scale(x, 1.0 / two_40))) / two_40) as f32;
        assert_eq!(rcp_approx(tables, SCALED, x | SIGN), expected.to_bits() | SIGN, "{x:08x}");
    }
    assert_eq!(rcp_approx(tables, FLUSHED, 0x7f00_0000), 0);
    assert_eq!(rcp_approx(tables, SCALED, 0x7f00_0000), 0x0040_0000);
    for x in [0, SIGN, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x3f80_0001, 0x7e80_0000, 0x0080_0000] {
        assert_eq!(rcp_approx(tables, SCALED, x), mufu::rcp(tables, x), "{x:08x}");
    }
}

#[test]
fn roots_and_logarithms_of_subnormals() {
    let tables = MufuTables::g80();
    for x in (1..0x0080_0000_u32).step_by(331) {
        let root = 1.0 / value(x).sqrt();
        assert!((value(rsqrt_approx(tables, SCALED, x)) / root - 1.0).abs() < 1.3e-7, "{x:08x}");
        let log = libm::log2(value(x));
        assert!((value(lg2_approx(tables, SCALED, x)) - log).abs() < 2e-5, "{x:08x}");
        assert_eq!(rsqrt_approx(tables, FLUSHED, x), 0x7f80_0000);
        assert_eq!(lg2_approx(tables, FLUSHED, x), 0xff80_0000);
    }
    assert_eq!(rsqrt_approx(tables, SCALED, SIGN | 1), 0x7fff_ffff);
    assert_eq!(lg2_approx(tables, SCALED, SIGN | 1), 0x7fff_ffff);
    assert_eq!(lg2_approx(tables, SCALED, SIGN), 0xff80_0000);
}

/// Error in ulp of the exact result's binade, subnormals having the ulp of the smallest normal numbers.
fn exp2_error(x: u32, y: u32) -> f64 {
    let exact = libm::exp2(value(x));
    let exponent = libm::ilogb(exact).max(-126);
    (value(y) - exact).abs() / libm::ldexp(1.0, exponent - 23)
}

/// `specs/kernel-recipes.md` 2.2, published for sm_75: 2.05498 ulp at -0.0781555176, and 2.38344 with the fix-up.
#[test]
fn the_largest_errors_of_the_exponential_are_those_published() {
    let tables = MufuTables::g80();
    let x = (-0.078_155_52_f32).to_bits();
    assert!((exp2_error(x, mufu::ex2(tables, x)) - 2.05498).abs() < 1e-5);
    let mut largest = 0.0_f64;
    for x in 0xc2fc_0001..=0xc315_0000_u32 {
        largest = largest.max(exp2_error(x, ex2_approx(tables, SCALED, x)));
    }
    assert!((largest - 2.38344).abs() < 1e-5, "{largest}");
    assert_eq!(ex2_approx(tables, SCALED, 0xff80_0000), 0);
    assert_eq!(ex2_approx(tables, SCALED, 0xffc0_0000), 0x7fff_ffff);
    assert_eq!(ex2_approx(tables, FLUSHED, 0xc2fe_0000), 0);
    assert_eq!(ex2_approx(tables, SCALED, 0xc300_0000), 0x0020_0000);
}

#[test]
fn division_is_a_product_with_the_reciprocal() {
    let tables = MufuTables::g80();
    let div = |a, b, ftz| div_approx(tables, a, b, ftz).expect("a model");
    for i in 0..20_000_u32 {
        let (a, b) = (0x3f80_0000 + i * 409, 0x4000_0000 - i * 311);
        let expected = scalar::mul::<F32>(a, mufu::rcp(tables, b), Mods::RN);
        assert_eq!(div(a, b, false), expected);
        let exact = value(a) / value(b);
        assert!((value(expected) / exact - 1.0).abs() < 2.4e-7);
    }
    // Divisors above 2^126: zero of the quotient's sign, NaN for an infinite dividend.
    assert_eq!(div(0xbf80_0000, 0x7f00_0000, false), SIGN);
    assert_eq!(div(0x7f80_0000, 0x7f00_0000, false), 0x7fff_ffff);
    assert_eq!(div(0x0000_0001, 0x3f80_0000, true), 0);
    assert_eq!(div(0x3f80_0000, 0x0000_0001, true), 0x7f80_0000);
    let error = div_approx(tables, 0x3f80_0000, 1, false).expect_err("open").to_string();
    assert!(error.contains("subnormal divisor") && error.contains("would settle"), "{error}");
}
