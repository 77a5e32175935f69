//! From the probe's PTX to the profile: the kernels run on the emulated device, and their dumps fit.

use emulator::exec::ExecOptions;
use emulator::mufu::fit::{Dump, fit_all};
use emulator::mufu::probe::{self, Probe};
use emulator::mufu::{Function, MufuTables, SineArgument};
use emulator::profile::Profile;

#[test]
fn probe_kernels_keep_every_rule_but_the_one_they_are_for() {
    let module = probe::module();
    let options = ptx::LintOptions { allow_any_approx: true, ..ptx::LintOptions::default() };
    assert_eq!(ptx::lint_with(&module, &options), []);
    let refused: Vec<String> = ptx::lint(&module).into_iter().map(|finding| finding.kernel).collect();
    for probe in Probe::all() {
        let allowed = !matches!(probe.function, Function::Sin | Function::Cos);
        assert_eq!(!refused.contains(&probe.kernel()), allowed, "{}", probe.kernel());
    }
    assert_eq!(ptx::parse(&probe::text()).expect("our own text"), module);
}

#[test]
fn the_instructions_name_every_launch() {
    let text = probe::instructions("probe.ptx");
    let module = probe::module();
    for probe in Probe::all() {
        assert!(module.kernel(&probe.kernel()).is_some());
        let line = text.lines().find(|line| line.starts_with(probe.stem)).expect("a row for every probe");
        for word in [probe.kernel(), format!("0x{:08x}", probe.start), probe.grid().to_string()] {
            assert!(line.contains(&word), "{line}");
        }
    }
    for name in text.split_whitespace().filter(|word| word.starts_with("probe_")) {
        let name = name.trim_end_matches([':', ',', '.']);
        assert!(module.kernel(name).is_some(), "{name}");
    }
}

/// Probe, dump, fit: the committed profile comes back, all five tables, and the argument path of the emulated device with
/// it.
#[test]
fn a_dump_of_the_emulated_device_fits_the_committed_profile() {
    let profile = Profile::by_name("sm_90").expect("a profile");
    let dumps: Vec<Dump> = Probe::all()
        .iter()
        .map(|probe| {
            let (dump, stats) = probe.run_emulated(profile, &ExecOptions::default()).expect("the kernel runs");
            assert_eq!(stats.blocks, u64::from(probe.grid()));
            dump
        })
        .collect();
    let report = fit_all(&dumps, &[]).expect("complete dumps");
    for fitted in &report.functions {
        assert_eq!(fitted.most_triples(), 1, "{}", fitted.function);
    }
    assert_eq!(report.sine_arguments, [SineArgument::DEFAULT]);
    assert_eq!(report.tables, *MufuTables::g80());

    // Another way to reduce the argument than either: no fit, so no sine in the profile.
    let mut dumps = dumps;
    let last = dumps.last_mut().expect("a dump of cosine");
    let mut outputs = last.outputs().to_vec();
    outputs[12_345] ^= 1;
    *last = Dump::new(Function::Cos, last.start(), outputs).expect("a binade");
    let report = fit_all(&dumps, &[]).expect("complete dumps");
    assert!(report.sine_arguments.is_empty() && report.tables.rows(Function::Sin).is_none());
    assert!(!report.functions[4].fits());
}

#[test]
fn results_come_back_byte_for_byte_and_wrong_ones_are_refused() {
    let outputs: Vec<u32> = (0..1 << 23).collect();
    let dump = Dump::new(Function::Tanh, 0x3f80_0000, outputs.clone()).expect("a binade");
    assert_eq!(dump.stem(), None);
    let dump = Dump::new(Function::Sin, 0x4000_0000, outputs).expect("a binade");
    assert_eq!(dump.stem(), Some("sin-2-4"));
    assert_eq!(Dump::from_results("sin-2-4", &dump.to_results()).expect("our own bytes"), dump);
    assert!(Dump::from_results("sin-2-4", &[0; 12]).is_err());
    assert!(Dump::from_results("tanh-1-2", &dump.to_results()).is_err());
}
