//! Driving the binary as a stranger would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The binary under test with these arguments.
pub fn lastbit(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lastbit"));
    command.args(args);
    command
}

/// Runs it; returns exit code, standard output, standard error.
pub fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = lastbit(args).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (status.code().expect("it exits"), text(stdout), text(stderr))
}

/// Runs it on input that may make it hang or read without end: memory is limited, and it is ended and the test failed if it goes on for minutes.
#[allow(dead_code, reason = "each test file uses its own part of the bench")]
pub fn run_bounded(args: &[&str]) -> (i32, String, String) {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v 8000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_lastbit")])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let read = |mut from: Box<dyn std::io::Read + Send>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            from.read_to_string(&mut text).expect("output is UTF-8");
            text
        })
    };
    let out = read(Box::new(child.stdout.take().expect("piped")));
    let err = read(Box::new(child.stderr.take().expect("piped")));
    let patience = Instant::now() + Duration::from_secs(180);
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if Instant::now() > patience => {
                child.kill().expect("a child");
                panic!("{args:?} does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let (out, err) = (out.join().expect("output"), err.join().expect("output"));
    (status.code().unwrap_or_else(|| panic!("{args:?} was ended by a signal: {err}")), out, err)
}

/// Runs it, expects this exit code, and reads its JSON.
pub fn json(code: i32, args: &[&str]) -> Value {
    let (found, out, err) = run(args);
    assert_eq!(found, code, "{args:?}\n{out}\n{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?} printed no JSON ({e}): {out}"))
}

/// A scratch folder with a key pair and an empty log.
pub struct Bench {
    folder: tempfile::TempDir,
}

#[allow(dead_code, reason = "each test file uses its own part of the bench")]
impl Bench {
    /// Keys `operator` and `auditor`, and a log named `origin`.
    pub fn new(origin: &str) -> Self {
        let bench = Self { folder: tempfile::tempdir().expect("a scratch folder") };
        for name in ["operator", "auditor", "stranger"] {
            bench.ok(&["keygen", &bench.path(name)]);
        }
        bench.ok(&["log", "init", &bench.path("log"), "--origin", origin, "--key", &bench.path("operator")]);
        bench
    }

    /// A path inside, as text.
    pub fn path(&self, name: &str) -> String {
        self.at(name).to_str().expect("a UTF-8 path").to_owned()
    }

    /// A path inside.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs and expects success.
    pub fn ok(&self, args: &[&str]) -> String {
        let (code, out, err) = run(args);
        assert_eq!(code, 0, "{args:?}\n{out}\n{err}");
        out
    }

    /// Serves one short batch into the log.
    pub fn serve(&self, more: &[&str]) {
        let (log, key) = (self.path("log"), self.path("operator"));
        let mut args = vec!["generate", "--log", &log, "--key", &key, "--nonce", "00ff", "--max-new-tokens", "6"];
        args.extend(["--prompt", "In the beginning", "--prompt", "And the LORD said"]);
        args.extend(more);
        self.ok(&args);
    }

    /// The audit's JSON; `code` is the exit code to expect.
    pub fn audit(&self, code: i32, more: &[&str]) -> Value {
        let (log, key) = (self.path("log"), self.path("operator.pub"));
        let mut args = vec!["audit", &log, "--key", &key, "--json"];
        args.extend(more);
        json(code, &args)
    }
}

/// Copies a folder with everything below it.
#[allow(dead_code, reason = "each test file uses its own part of the bench")]
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
