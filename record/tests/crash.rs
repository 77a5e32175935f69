//! SIGKILL at random moments: no acknowledged record is ever lost, and the log verifies after each restart.
//!
//! The test starts itself as a child that appends and prints each acknowledgement, kills it, and looks at what is left.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use record::Log;
use record::log::{Directory, Expect, verify};
use support::{ORIGIN, Random, append, key};

const CHILD: &str = "LASTBIT_CRASH_TEST_CHILD";
const LOGS: usize = 4;
const KILLS: usize = 10;

fn main() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return child(Path::new(&dir));
    }
    // `cargo test <filter>` and `--list` reach this binary too.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    if arguments.iter().any(|argument| argument == "--list") {
        return println!("sigkill_loses_no_acknowledged_record: test");
    }
    if filter.is_some_and(|filter| !"sigkill_loses_no_acknowledged_record".contains(filter.as_str())) {
        return;
    }
    let mut random = Random(0xc4a5);
    let mut totals = Totals::default();
    for _ in 0..LOGS {
        torture(&mut random, &mut totals);
    }
    println!("test sigkill_loses_no_acknowledged_record ... ok ({totals:?})");
    assert!(totals.acknowledged > 0, "children were killed before they did anything");
}

#[derive(Debug, Default)]
struct Totals {
    kills: usize,
    acknowledged: u64,
    adopted: u64,
    torn: usize,
}

/// Appends until killed.
fn child(dir: &Path) {
    let (mut log, _) = Log::open(dir, key()).unwrap();
    let mut out = std::io::stdout();
    loop {
        let (_, ack) = append(&mut log);
        writeln!(out, "{}", ack.index).and_then(|()| out.flush()).unwrap();
    }
}

fn torture(random: &mut Random, totals: &mut Totals) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    Log::init(&path, ORIGIN, &key()).unwrap();
    let mut acknowledged = 0;
    for _ in 0..KILLS {
        let mut child =
            Command::new(std::env::current_exe().unwrap()).env(CHILD, &path).stdout(Stdio::piped()).spawn().unwrap();
        let mut acks = BufReader::new(child.stdout.take().unwrap()).lines();
        // Some kills fall into start-up and recovery, most into the appends after a few acknowledgements.
        let wait_for = random.below(4);
        for _ in 0..wait_for {
            acknowledged = acks.next().unwrap().unwrap().parse::<u64>().unwrap() + 1;
        }
        sleep(Duration::from_micros(random.below(20_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it managed to say before it died counts as well; a half-written line does not.
        for line in acks.map_while(Result::ok) {
            if let Ok(index) = line.parse::<u64>() {
                acknowledged = acknowledged.max(index + 1);
            }
        }
        let (log, recovery) = Log::open(&path, key()).unwrap();
        assert!(log.size() >= acknowledged, "{acknowledged} acknowledged, {} left", log.size());
        drop(log);
        let source = Directory::new(&path);
        let verified = verify(&source, &key().public(), &Expect::default()).unwrap();
        assert_eq!((verified.entries.len() as u64, verified.unacknowledged()), (recovery.size, 0));
        acknowledged = recovery.size;
        totals.kills += 1;
        totals.adopted += recovery.adopted;
        totals.torn += usize::from(recovery.torn.is_some());
    }
    totals.acknowledged += acknowledged;
}
