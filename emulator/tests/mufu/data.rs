//! The committed vectors of `tests/data/mufu`.

use emulator::mufu::Function;
use emulator::mufu::fit::Dump;
use std::io::{BufReader, Read};
use std::path::PathBuf;

/// The stems of the correction files.
pub const STEMS: [&str; 6] = ["rcp-1-2", "rsq-1-2", "rsq-2-4", "ex2-1-2", "ex2-neg1-neg2", "lg2-1-2"];

fn decompress(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/mufu").join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(BufReader::new(file), false)
        .read_to_end(&mut bytes)
        .expect("committed data decompresses");
    bytes
}

/// The bytes of a correction file.
pub fn corrections(stem: &str) -> Vec<u8> {
    decompress(&format!("{stem}.ulp.xz"))
}

/// A correction file as a dump.
pub fn dump(stem: &str) -> Dump {
    Dump::from_corrections(stem, &corrections(stem)).expect("committed data are dumps")
}

/// All correction files as dumps.
pub fn dumps() -> Vec<Dump> {
    STEMS.iter().map(|stem| dump(stem)).collect()
}

/// A row of the golden file.
pub struct Golden {
    pub x: u32,
    pub results: Vec<(Function, u32)>,
}

/// The golden file: operands and the results of all functions in its header.
pub fn golden() -> Vec<Golden> {
    let text = String::from_utf8(decompress("mufu-golden.csv.xz")).expect("ascii");
    let mut lines = text.lines();
    let functions: Vec<Function> = lines
        .next()
        .expect("a header")
        .split(',')
        .skip(1)
        .map(|name| Function::by_name(name).expect("a known function"))
        .collect();
    let hex = |word: &str| u32::from_str_radix(word, 16).expect("hex");
    lines
        .map(|line| {
            let words: Vec<u32> = line.split(',').map(hex).collect();
            assert_eq!(words.len(), functions.len() + 1, "{line}");
            Golden { x: words[0], results: functions.iter().copied().zip(words[1..].iter().copied()).collect() }
        })
        .collect()
}

/// Golden rows of the functions that have a model, as samples for the fit.
pub fn samples() -> Vec<(Function, u32, u32)> {
    golden()
        .iter()
        .flat_map(|row| row.results.iter().map(|&(function, y)| (function, row.x, y)))
        .filter(|(function, ..)| function.model().is_ok())
        .collect()
}
