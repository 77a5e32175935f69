//! The conformance suite: it covers every kernel, finds nothing on the emulated device, and finds what is wrong on one that is.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use emulator::profile::{Profile, ZeroPolicy};
use engine::conformance::{self, Answer, Part, Row, Suite, Watch, kernel_cases};
use engine::device::{Device, EmulatedDevice};
use engine::kernels::KernelText;
use engine::{Engine, Limits, Mode};

#[derive(Default)]
struct Count {
    rows: usize,
    answers: usize,
}

impl Watch for Count {
    fn row(&mut self, _: &Row) {
        self.rows += 1;
    }

    fn answer(&mut self, answer: Answer) -> std::io::Result<()> {
        assert!(answer.line["gpu"].as_str().is_some_and(|gpu| gpu.contains("not a GPU")), "{}", answer.line);
        self.answers += 1;
        Ok(())
    }
}

fn run(subject: &Profile, parts: &[Part]) -> (Vec<Row>, Count) {
    let mut make = || Ok(Box::new(EmulatedDevice::with_profile(subject.clone())) as Box<dyn Device>);
    let mut suite = Suite {
        subject: &mut make,
        reference: &|profile: &Profile| EmulatedDevice::with_profile(profile.clone()),
        vectors: &[],
        deep: false,
        parts,
    };
    let mut count = Count::default();
    let found = suite.run(&mut count).unwrap();
    assert_eq!(found.rows.len(), count.rows);
    (found.rows, count)
}

fn profile(name: &str) -> &'static Profile {
    Profile::by_name(name).unwrap()
}

#[test]
fn instructions_of_every_generation_are_those_of_the_emulator() {
    for name in ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] {
        let (rows, count) = run(profile(name), &[Part::Matrix]);
        let compared: Vec<&Row> = rows.iter().filter(|r| r.not_covered.is_none()).collect();
        assert!(compared.iter().all(|r| r.failed == 0 && r.passed > 0), "{name}: {compared:?}");
        // Eight of 16-bit and tf32 operands, sixteen of integers, and FP8 since Ada.
        let fp8 = compared.iter().filter(|r| r.what.contains("e4m3") || r.what.contains("e5m2")).count();
        assert_eq!(compared.len() - fp8, 24, "{name}: {compared:?}");
        assert_eq!(fp8 > 0, profile(name).sm >= 89, "{name}");
        assert_eq!(count.answers, compared.len() * 1024, "{name}");
    }
}

#[test]
fn a_profile_with_another_rule_is_told_apart() {
    let sentinel = profile("sm_90").with_zero_policy(ZeroPolicy::SentinelMinus126);
    let (rows, _) = run(&sentinel, &[Part::Matrix]);
    let row = rows.iter().find(|r| r.what == "mma m16n8k16.f32.bf16.bf16.f32").unwrap();
    assert!(row.failed > 0 && row.first_difference.as_ref().is_some_and(|d| d.contains("expected")), "{row:?}");
    // Integers have no zero policy.
    let row = rows.iter().find(|r| r.what == "mma m16n8k32.s32.s8.u8.s32").unwrap();
    assert_eq!(row.failed, 0, "{row:?}");
}

#[test]
fn special_and_scalar_instructions_are_those_of_the_emulator() {
    let (rows, _) = run(profile("sm_90"), &[Part::Special, Part::Scalar]);
    for row in &rows {
        let unknown = ["sqrt.approx", "tanh.approx"].iter().any(|f| row.what.starts_with(f));
        assert_eq!(row.not_covered.is_some(), unknown, "{row:?}");
        assert!(unknown || row.failed == 0 && row.passed >= 1024, "{row:?}");
    }
    assert!(rows.len() > 300, "{}", rows.len());
}

/// A kernel that the engine launches and the suite leaves out would never be compared on a card.
#[test]
fn every_kernel_of_the_engine_has_cases() {
    let model = Arc::new(engine::model::embedded().unwrap());
    let cases: BTreeSet<String> = kernel_cases().into_iter().map(|k| k.name).collect();
    for mode in Mode::ALL {
        let device = Box::new(EmulatedDevice::new("sm_90").unwrap());
        let engine = Engine::new(model.clone(), device, mode, Limits { slots: 1, pages: 4, max_rows: 16 }).unwrap();
        let launches = engine.launches();
        let missing: Vec<&str> =
            launches.kernels().iter().map(|k| k.name.as_str()).filter(|name| !cases.contains(*name)).collect();
        assert!(missing.is_empty(), "{}: no case in conformance::kernels for {missing:?}", mode.name());
    }
    // Kernels of other families than the embedded model's.
    assert!(cases.contains("bias") && cases.contains("head_norm"), "{cases:?}");
}

/// Every probe assembles for every generation that its header promises.
#[test]
fn ptxas_accepts_every_probe() {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        println!("SKIPPED ptxas_accepts_every_probe: needs the environment variable PTXAS to name a ptxas");
        return;
    };
    let matrix = conformance::matrix_probes().into_iter().map(|(i, k)| (i.to_string(), k, true));
    let special = conformance::special_probes().into_iter().map(|(what, _, k)| (what, k, true));
    // Hundreds, of instructions that are alike: the oldest and the newest generation.
    let scalar = conformance::scalar_probes().into_iter().map(|p| (p.what, p.kernel, false));
    let kernels = kernel_cases().into_iter().map(|k| (k.name.clone(), k, false));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut refused = Vec::new();
    for (what, KernelText { ptx, .. }, all) in matrix.chain(special).chain(scalar).chain(kernels) {
        let source = folder.path().join("probe.ptx");
        std::fs::write(&source, &ptx).expect("the folder is writable");
        let target = ptx::parse(&ptx).expect("a probe parses").target;
        let archs: &[u32] = if all { &[80, 89, 90, 100, 120] } else { &[80, 120] };
        for arch in archs.iter().filter(|arch| **arch >= target) {
            let output = Command::new(&ptxas)
                .args([&format!("-arch=sm_{arch}"), "-o"])
                .args([folder.path().join("out"), source.clone()])
                .output()
                .expect("ptxas starts");
            let log = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() || log.contains("warning") {
                refused.push(format!("{what} on sm_{arch}: {log}"));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
