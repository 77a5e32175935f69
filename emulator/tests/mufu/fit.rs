//! The committed profile is what the fit finds; what does not fit is said and listed.

use crate::data;
use emulator::mufu::fit::{Dump, Outcome, fit, fit_all};
use emulator::mufu::{self, Function, MufuTables};

#[test]
fn the_fit_reproduces_the_committed_profile_and_leaves_nothing_open() {
    let dumps = data::dumps();
    let report = fit_all(&dumps, &[]).expect("the committed dumps fit");
    for fitted in &report.functions {
        assert!(fitted.fits() && fitted.impossible == 0, "{}", fitted.function);
        for (i, segment) in fitted.segments.iter().enumerate() {
            assert_eq!((segment.triples, segment.mismatches), (1, 0), "{} segment {i}", fitted.function);
        }
    }
    for function in [Function::Rcp, Function::Rsq, Function::Ex2, Function::Lg2] {
        let (fitted, built_in) = (report.tables.rows(function), MufuTables::g80().rows(function));
        assert!(
            fitted == built_in,
            "`lastbit mufu fit` finds other coefficients of {function} than the committed ones"
        );
    }
    assert_eq!((report.tables.rows(Function::Sin), report.sine_arguments.len()), (None, 0), "no dumps of the sine");
    // Golden values outside the dumps change nothing.
    let with_samples = fit_all(&dumps, &data::samples()).expect("dumps and golden values fit together");
    assert_eq!(with_samples.tables, report.tables);
}

/// A unit that differs in one output: the segment is reported, and the function is listed with all its outputs.
#[test]
fn a_function_that_does_not_fit_is_reported_and_listed() {
    const CHANGED: usize = 37 * (1 << 16) + 1234;
    let mut dumps = data::dumps();
    let rcp = &dumps[0];
    let mut outputs = rcp.outputs().to_vec();
    outputs[CHANGED] += 1;
    dumps[0] = Dump::new(Function::Rcp, rcp.start(), outputs).expect("a binade");

    let report = fit_all(&dumps, &[]).expect("the other functions fit");
    let fitted = &report.functions[0];
    assert!(matches!(fitted.outcome, Outcome::Listed(_)));
    let misfits: Vec<usize> = fitted.misfits().map(|(i, _)| i).collect();
    assert_eq!(misfits, [37]);
    assert!(fitted.segments[37].mismatches >= 1);

    let x = 0x3f80_0000 + CHANGED as u32;
    let (tables, model) = (&report.tables, MufuTables::g80());
    assert_eq!(mufu::rcp(tables, x), mufu::rcp(model, x) + 1);
    assert_eq!(mufu::rcp(tables, x ^ 0x8100_0000), mufu::rcp(model, x ^ 0x8100_0000) + 1);
    for x in (0..u32::MAX - 99_991).step_by(99_991).filter(|x| x & 0x7f_ffff != CHANGED as u32) {
        assert_eq!(mufu::rcp(tables, x), mufu::rcp(model, x), "{x:08x}");
    }
    assert_eq!(tables.rows(Function::Rcp), None);

    // Stored as text and correction file, and read back.
    let text = tables.to_text("one output changed");
    let bytes = dumps[0].to_corrections().expect("a known binade");
    let back = Dump::from_corrections("rcp-1-2", &bytes).expect("our own file");
    assert_eq!(back, dumps[0]);
    assert_eq!(MufuTables::parse_with(&text, &[back]).expect("our own profile"), *tables);
    assert!(MufuTables::parse(&text).is_err(), "a listed function needs its dump");
}

/// LG2 outputs of one binade do not determine the others, so a misfit is an error.
#[test]
fn a_logarithm_that_does_not_fit_is_refused() {
    let mut dumps = data::dumps();
    let lg2 = dumps.pop().expect("the last one is lg2");
    let mut outputs = lg2.outputs().to_vec();
    outputs[5 << 17] ^= 0x100;
    let changed = Dump::new(Function::Lg2, lg2.start(), outputs).expect("a binade");
    let fitted = fit(Function::Lg2, std::slice::from_ref(&changed), &[]).expect("a fit with a misfit");
    assert_eq!(fitted.misfits().map(|(i, _)| i).collect::<Vec<_>>(), [5]);
    dumps.push(changed);
    let message = fit_all(&dumps, &[]).expect_err("no tables without lg2").to_string();
    assert!(message.contains("lg2"), "{message}");
}

/// Two dumps that contradict each other do not fit: the negative operands of EX2 follow from the positive ones.
#[test]
fn contradicting_dumps_do_not_fit() {
    let (positive, negative) = (data::dump("ex2-1-2"), data::dump("ex2-neg1-neg2"));
    let mut outputs = negative.outputs().to_vec();
    outputs[0x12_3456] -= 1;
    let changed = Dump::new(Function::Ex2, negative.start(), outputs).expect("a binade");
    let fitted = fit(Function::Ex2, &[positive, changed], &[]).expect("a fit with a misfit");
    assert_eq!(fitted.misfits().count(), 1);
}

#[test]
fn correction_files_come_back_byte_for_byte() {
    for stem in data::STEMS {
        let bytes = data::corrections(stem);
        assert!(data::dump(stem).to_corrections().expect("a known binade") == bytes, "{stem}");
    }
}

#[test]
fn unusable_dumps_are_refused() {
    assert!(Dump::from_corrections("rcp-2-4", &[0; 1 << 23]).is_err());
    assert!(Dump::from_corrections("rcp-1-2", &[0; 100]).is_err());
    assert!(Dump::new(Function::Rcp, 0x3f80_0001, vec![0; 1 << 23]).is_err());
    assert!(Dump::new(Function::Rcp, 0x7f80_0000, vec![0; 1 << 23]).is_err());
    let rsq = data::dump("rsq-1-2");
    assert!(fit(Function::Rcp, std::slice::from_ref(&rsq), &[]).is_err(), "a dump of another function");
    assert!(fit(Function::Rsq, &[rsq], &[]).is_err(), "half of the segments");
    assert!(fit(Function::Sin, &[], &[]).is_err(), "no outputs");
}
