//! Whole ranges: checksums of the model and of the dumps, and error counts published for real GPUs.

use crate::data;
use emulator::mufu::fit::{Dump, correctly_rounded};
use emulator::mufu::{self, Function, MufuTables};

pub fn fnv(results: impl Iterator<Item = u32>) -> u64 {
    results
        .flat_map(u32::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The rows of the table in `tests/data/mufu/README.md`: model, range (end excluded), checksum.
#[test]
fn the_model_has_the_published_checksums() {
    type Model = fn(&MufuTables, u32) -> u32;
    let rows: [(&str, Model, u32, u32, u64); 6] = [
        ("rcp", mufu::rcp, 0x3f80_0000, 0x4000_0000, 0xf6c4_479b_058c_7200),
        ("rsq", mufu::rsq, 0x3f80_0000, 0x4080_0000, 0x7fd5_ee41_cc33_1920),
        ("ex2", mufu::ex2, 0x3f80_0000, 0x4000_0000, 0x8a01_e767_8d28_3c83),
        ("ex2", mufu::ex2, 0xbf80_0000, 0xc000_0000, 0x878c_9da7_1b53_c1ad),
        ("ex2", mufu::ex2, 0x3e80_0000, 0x3f80_0000, 0x11b8_cc0a_1302_114d),
        ("lg2", mufu::lg2, 0x3f80_0000, 0x4000_0000, 0x85e2_7082_74aa_4bad),
    ];
    let tables = MufuTables::g80();
    for (name, model, from, to, checksum) in rows {
        assert_eq!(fnv((from..to).map(|x| model(tables, x))), checksum, "{name} from {from:08x}");
    }
}

/// The dumps have the checksums too. They state differences to correctly rounded results that are computed here, so this
/// checks those as well, and does not involve the model.
#[test]
fn the_dumps_have_the_published_checksums() {
    let rows: [(&[&str], u64); 5] = [
        (&["rcp-1-2"], 0xf6c4_479b_058c_7200),
        (&["rsq-1-2", "rsq-2-4"], 0x7fd5_ee41_cc33_1920),
        (&["ex2-1-2"], 0x8a01_e767_8d28_3c83),
        (&["ex2-neg1-neg2"], 0x878c_9da7_1b53_c1ad),
        (&["lg2-1-2"], 0x85e2_7082_74aa_4bad),
    ];
    for (stems, checksum) in rows {
        let dumps: Vec<Dump> = stems.iter().map(|stem| data::dump(stem)).collect();
        assert_eq!(fnv(dumps.iter().flat_map(|dump| dump.outputs().iter().copied())), checksum, "{stems:?}");
    }
}

/// `specs/kernel-recipes.md` 2.2: results of exhaustive probes of A100, L40S and H100, as differences in ulp.
#[test]
fn error_counts_equal_those_of_real_gpus() {
    let tables = MufuTables::g80();
    let count = |function, start: u32, model: fn(&MufuTables, u32) -> u32| {
        let mut counts = [0; 5];
        for (i, correct) in correctly_rounded(function, start).expect("a known binade").into_iter().enumerate() {
            let ulp = model(tables, start + i as u32).wrapping_sub(correct) as i32;
            counts[usize::try_from(ulp + 2).expect("at most two ulp")] += 1;
        }
        counts
    };
    assert_eq!(count(Function::Rcp, 0x3f80_0000, mufu::rcp), [0, 374_723, 7_280_086, 733_799, 0]);
    let even = count(Function::Rsq, 0x3f80_0000, mufu::rsq);
    assert_eq!((even[2], even[1] + even[3], even[0] + even[4]), (6_505_163, 1_883_437, 8));
    let odd = count(Function::Rsq, 0x4000_0000, mufu::rsq);
    assert_eq!((odd[2], odd[1] + odd[3], odd[0] + odd[4]), (6_637_923, 1_750_685, 0));
}

/// Correctly rounded reciprocals are those of the scalar division.
#[test]
fn reciprocals_are_those_of_division() {
    use emulator::scalar::{F32, Mods, rcp};
    let results = correctly_rounded(Function::Rcp, 0x3f80_0000).expect("a known binade");
    for (i, &bits) in results.iter().enumerate().step_by(7) {
        assert_eq!(bits, rcp::<F32>(0x3f80_0000 + i as u32, Mods::RN));
    }
}
