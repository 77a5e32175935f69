//! Sine and cosine: checksums, what the golden values determine, published error bounds, the two argument paths.

use crate::checksums::fnv;
use crate::data;
use emulator::mufu::fit::{Outcome, fit_sine};
use emulator::mufu::{self, Function, MufuTables, SineArgument};

fn sin(x: u32) -> u32 {
    mufu::sin(MufuTables::g80(), SineArgument::FixedPoint, x).expect("the built-in profile has a sine")
}

fn cos(x: u32) -> u32 {
    mufu::cos(MufuTables::g80(), SineArgument::FixedPoint, x).expect("the built-in profile has a sine")
}

#[test]
fn sine_and_cosine_have_the_published_checksums() {
    let range = || 0x3f00_0000..0x3f80_0000;
    assert_eq!(fnv(range().map(sin)), 0x3b53_c2b0_901a_fba2);
    assert_eq!(fnv(range().map(cos)), 0x0361_99ff_1c70_7e1d);
}

/// The golden values leave one triple of coefficients in 56 segments, and that is the committed one. The rest is what
/// the head of the profile says it is.
#[test]
fn golden_values_determine_most_of_the_table() {
    let golden: Vec<_> = data::samples().into_iter().filter(|s| matches!(s.0, Function::Sin | Function::Cos)).collect();
    let error = fit_sine(SineArgument::FixedPoint, &[], &golden).expect_err("too few outputs").to_string();
    assert!(error.contains("segment 19 has 2 outputs"), "{error}");

    // With an output of the model in 19 and 44 (0.47 and 1.085 radians), which so proves nothing about these segments.
    let filled = [0x3ef0_a3d7, 0x3f8a_e148].map(|x| (Function::Sin, x, sin(x)));
    let samples: Vec<_> = golden.into_iter().chain(filled).collect();
    let fitted = fit_sine(SineArgument::FixedPoint, &[], &samples).expect("every segment has outputs");
    let Outcome::Rows(_) = fitted.outcome else { panic!("golden values contradict the model") };
    let committed = MufuTables::g80().rows(Function::Sin).expect("the built-in profile has a sine");
    let mut several = Vec::new();
    for (i, segment) in fitted.segments.iter().enumerate().filter(|(i, _)| ![19, 44].contains(i)) {
        match segment.triples {
            1 => assert_eq!(segment.row, committed[i], "segment {i}"),
            triples => several.push((i, triples)),
        }
    }
    assert_eq!(several, [(21, 2), (22, 2), (27, 2), (28, 2), (31, 2), (42, 5)]);
    // The golden values are of one argument path, and tell it from the other.
    let other = fit_sine(SineArgument::MultiplyTowardZero, &[], &samples).expect("every segment has outputs");
    assert!(!other.fits());
}

/// Below half a revolution the product toward zero keeps every bit that the fixed-point argument keeps, so the paths give
/// the same; above, it drops the last.
#[test]
fn the_argument_paths_agree_below_pi_and_not_above() {
    let tables = MufuTables::g80();
    let differ = |x: u32| {
        let [a, b] = SineArgument::ALL.map(|path| mufu::sin(tables, path, x).expect("the built-in profile has a sine"));
        a != b
    };
    const PI: u32 = 0x4049_0fdb;
    assert!(!(0x3000_0000..PI).step_by(997).any(differ));
    assert!((PI..0x4100_0000).step_by(997).any(differ));
}

#[test]
fn special_operands() {
    let tables = MufuTables::g80();
    for path in SineArgument::ALL {
        for (x, sin, cos) in [
            (0, 0, 0x3f80_0000),
            (0x8000_0000, 0x8000_0000, 0x3f80_0000),
            (0x0000_0001, 0, 0x3f80_0000),
            (0x7f80_0000, 0x7fff_ffff, 0x7fff_ffff),
            (0xff80_0001, 0x7fff_ffff, 0x7fff_ffff),
        ] {
            assert_eq!(mufu::sin(tables, path, x).ok(), Some(sin), "sin({x:08x})");
            assert_eq!(mufu::cos(tables, path, x).ok(), Some(cos), "cos({x:08x})");
        }
        // The largest floats: bits below a revolution are gone, but nothing overflows.
        for x in [0x7f7f_ffff, 0x4b80_0001, 0xcb00_0003] {
            let y = mufu::sin(tables, path, x).expect("the built-in profile has a sine");
            assert!(f32::from_bits(y).abs() <= 1.0);
        }
    }
}

#[test]
fn a_profile_without_a_sine_refuses_it() {
    let text = MufuTables::g80().to_text("");
    let (without, _) = text.split_once("sin 64").expect("the built-in profile has a sine");
    let tables = MufuTables::parse(without).expect("the sine is optional");
    let error = mufu::sin(&tables, SineArgument::FixedPoint, 0x3f80_0000).expect_err("no rows").to_string();
    assert!(error.contains("sin") && error.contains("dump"), "{error}");
}

/// `specs/kernel-recipes.md` 2.2: the largest errors on [-pi, pi] are 2^-21.457 and 2^-21.240.
#[test]
#[ignore = "deep: every operand of [2^-12, pi]"]
fn the_largest_errors_are_those_of_the_model_published() {
    let mut largest = [0.0_f64; 2];
    for x in 0x3980_0000_u32..=0x4049_0fdb {
        let exact = f64::from(f32::from_bits(x));
        let error = |bits: u32, exact: f64| (f64::from(f32::from_bits(bits)) - exact).abs();
        largest[0] = largest[0].max(error(sin(x), libm::sin(exact)));
        largest[1] = largest[1].max(error(cos(x), libm::cos(exact)));
    }
    let [sin, cos] = largest.map(|error| -libm::log2(error));
    assert!((sin - 21.457).abs() < 1e-3 && (cos - 21.240).abs() < 1e-3, "2^-{sin} 2^-{cos}");
}
