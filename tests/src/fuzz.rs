//! Deterministic mutational fuzzing of a parser: seeds, a seeded generator, and the promise that nothing panics.
//!
//! Every run of one budget sees the same inputs. A quick budget belongs into every test run; a deep one goes on for a time.

use std::time::{Duration, Instant};

/// How long a parser is fuzzed.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// This many inputs.
    Inputs(u64),
    /// Inputs for this long; which ones are the same, how many is not.
    Time(Duration),
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Most bytes of a mutated input: lengths that a parser believes must not need more.
const MAX_INPUT: usize = 1 << 16;

/// Feeds `parse` mutations of `seeds`, one after the other on top of each other, and of nothing. Returns how many inputs it was given.
///
/// # Panics
/// As `parse` does; the input is written to standard error in hex first.
pub fn run(name: &str, seeds: &[Vec<u8>], budget: Budget, mut parse: impl FnMut(&[u8])) -> u64 {
    let mut random = Random(name.bytes().fold(1, |h, b| h.wrapping_mul(31).wrapping_add(b.into())));
    let begun = Instant::now();
    let mut count = 0;
    let goes_on = |count: u64| match budget {
        Budget::Inputs(most) => count < most,
        Budget::Time(most) => !count.is_multiple_of(64) || begun.elapsed() < most,
    };
    for seed in seeds {
        feed(name, seed, &mut parse);
    }
    while goes_on(count) {
        let mut input = if seeds.is_empty() { Vec::new() } else { seeds[random.below(seeds.len())].clone() };
        for _ in 0..=random.below(4) {
            mutate(&mut input, seeds, &mut random);
        }
        input.truncate(MAX_INPUT.max(seeds.iter().map(Vec::len).max().unwrap_or(0)));
        feed(name, &input, &mut parse);
        count += 1;
    }
    count
}

/// Tells which input it was when a parser panics.
struct Tell<'a>(&'a str, &'a [u8]);

impl Drop for Tell<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.1.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{}: the input was {hex}", self.0);
        }
    }
}

fn feed(name: &str, input: &[u8], parse: &mut impl FnMut(&[u8])) {
    let _tell = Tell(name, input);
    parse(input);
}

/// Numbers at which lengths and indices go wrong.
const EDGES: [u64; 10] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 53, i64::MAX as u64, u64::MAX];

/// Text that structured formats trip over.
const WORDS: [&str; 16] = [
    "null",
    "-0",
    "1e999",
    "18446744073709551616",
    "\"\"",
    "{}",
    "[]",
    "\\u0000",
    "\\ud800",
    "\n\n",
    "sha256:",
    "+",
    "=",
    "..",
    "\u{e4}",
    "\u{2014} ",
];

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let span = at..(at + random.below(16)).min(input.len());
    match random.below(9) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.next() as u8,
        2 => input.truncate(at),
        3 => drop(input.drain(span)),
        4 => {
            let copy = input[span].to_vec();
            input.splice(at..at, copy);
        }
        5 => {
            let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)].min(input.len().saturating_sub(at));
            input[at..at + width].copy_from_slice(&edge[..width]);
        }
        6 => drop(input.splice(span, WORDS[random.below(WORDS.len())].bytes())),
        7 => drop(input.splice(span, EDGES[random.below(EDGES.len())].to_string().into_bytes())),
        _ if !seeds.is_empty() => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            let to = (from + random.below(256)).min(other.len());
            drop(input.splice(span, other[from..to].iter().copied()));
        }
        _ => input.push(random.next() as u8),
    }
}
