//! The printed text against NVIDIA's assembler, where there is one.

mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ptx::ast::Module;

/// Assembles a text; the assembler's complaint is the error.
fn assemble(ptxas: &Path, arch: &str, text: &str) -> Result<(), String> {
    let mut child = Command::new(ptxas)
        .args([&format!("-arch={arch}"), "-o", "/dev/null", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", ptxas.display()))?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    stdin.write_all(text.as_bytes()).map_err(|e| e.to_string())?;
    drop(stdin);
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout))
    }
}

/// Every builder kernel assembles for every GPU generation the header promises.
#[test]
fn printed_kernels_assemble() {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        eprintln!("SKIPPED printed_kernels_assemble: needs PTXAS=<path of NVIDIA's ptxas>");
        return;
    };
    for kernel in common::all().kernels {
        let name = kernel.name.clone();
        let text = ptx::print(&Module::new(vec![kernel]));
        for arch in ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] {
            if let Err(why) = assemble(Path::new(&ptxas), arch, &text) {
                panic!("{name} for {arch}: {why}\n{text}");
            }
        }
    }
}

/// What the validator calls an instruction, NVIDIA's assembler calls one too: every form of every
/// instruction of the subset, in one kernel.
#[test]
fn every_form_assembles() {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        eprintln!("SKIPPED every_form_assembles: needs PTXAS=<path of NVIDIA's ptxas>");
        return;
    };
    let mut kernel = common::forms::bench();
    let forms = common::forms::forms();
    kernel.body.splice(0..0, forms.into_iter().map(common::forms::inst));
    let text = ptx::print(&Module::new(vec![kernel]));
    for arch in ["sm_80", "sm_90", "sm_120"] {
        if let Err(why) = assemble(Path::new(&ptxas), arch, &text) {
            let lines: Vec<&str> = text.lines().collect();
            let said: Vec<String> = why
                .lines()
                .map(|w| {
                    let line = w.split("line ").nth(1).and_then(|r| r.split(';').next());
                    let index = line.and_then(|l| l.parse::<usize>().ok());
                    let text = index.and_then(|i| lines.get(i - 1)).unwrap_or(&"");
                    format!("{w}: {text}")
                })
                .collect();
            panic!("{arch}:\n{}", said.join("\n"));
        }
    }
}
