//! NVIDIA's assembler accepts every text for every generation it runs on. Needs a `ptxas`, named by the environment variable
//! `PTXAS`; it is proprietary and no part of this project.

use std::process::Command;

use crate::catalogue::texts;

#[test]
fn ptxas_accepts_every_kernel() {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        println!("SKIPPED ptxas_accepts_every_kernel: needs the environment variable PTXAS to name a ptxas");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut refused = Vec::new();
    for (i, (what, text)) in texts().into_iter().enumerate() {
        let source = folder.path().join(format!("{i}.ptx"));
        std::fs::write(&source, &text.ptx).expect("the folder is writable");
        for arch in ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"] {
            let output = Command::new(&ptxas)
                .args(["-v", &format!("-arch={arch}"), "-o"])
                .args([folder.path().join("out"), source.clone()])
                .output()
                .expect("ptxas starts");
            let log = String::from_utf8_lossy(&output.stderr);
            println!(
                "{what} {arch}: {}",
                log.lines().filter(|l| l.contains("Used") || l.contains("spill")).collect::<String>()
            );
            if !output.status.success() || log.contains("warning") {
                refused.push(format!("{what} on {arch}: {log}"));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
