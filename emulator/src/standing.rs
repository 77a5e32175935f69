//! Which operations are settled, and how: the table of `docs/arithmetic.md`.
//!
//! Matrix instructions state their confidence in [`crate::profile`]; this is everything else.

use crate::mufu::Function;
use crate::mufu::SineArgument;
use crate::mufu::approx::Wrapper;
use crate::open::Open;
use crate::profile::Confidence;
use crate::reduce::Tree;
use crate::walk::{Combine, Piece, Walk};

/// How an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The standard or the instruction set's manual leaves one answer.
    Defined,
    /// Reproduces outputs, or complete counts of outputs, of real cards.
    Confirmed,
    /// Evidence agrees, but no card's outputs were compared one by one.
    Likely,
    /// Not settled: a switch, or refused by name.
    Open,
}

impl Standing {
    /// The word in the table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Defined => "defined",
            Self::Confirmed => "confirmed",
            Self::Likely => "likely",
            Self::Open => "open",
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What is computed.
    pub operation: String,
    /// How it stands.
    pub standing: Standing,
    /// On what.
    pub source: String,
}

/// A row that the manual defines: operation, and what it is tested against.
const DEFINED: [(&str, &str); 12] = [
    ("add, sub, mul, fma, div.rnd, rcp.rnd, sqrt.rnd: f32, f64 (.rn .rz .rm .rp)", "two IEEE oracles"),
    ("add, sub, mul, fma: f16, bf16, packed f16x2, bf16x2, f32x2", "two IEEE oracles"),
    ("add, sub, fma: f32 with f16 or bf16 operands", "an IEEE oracle, exact widening"),
    (".ftz, .sat, .relu", "flush, compute, flush; all 16-bit operands of .relu"),
    ("min, max: .NaN, .abs, .xorsign.abs, three operands", "all pairs of boundary patterns, by value"),
    ("cvt among f16, bf16, tf32, f32, f64 and integers", "an IEEE oracle; all 16-bit operands"),
    ("cvt to and from e4m3, e5m2, e3m2, e2m3, e2m1", "search for the nearest value; all 8- and 16-bit operands"),
    ("cvt to and from ue8m0", "search for the power of two; all 16-bit operands"),
    (
        "cvt.rs to bf16, and to f16 in the normal range, one element",
        "both neighbours, and the carry that chooses between them",
    ),
    ("atom.add on f32, f64, f16, bf16, in an order given", "the manual's flush rule"),
    ("redux.sync: integers and f32", "exact integer folds; NaN, zero and member rules"),
    ("shuffle and vote", "the interpreter's tests"),
];

/// Open details inside operations that are otherwise defined.
const DETAILS: [(&str, &str); 4] = [
    ("NaN payloads of f64 arithmetic", "the first operand's is kept; which one wins is not documented"),
    ("abs and neg of an f32 NaN", "canonical here; the manual leaves it open"),
    (".relu of -0", "+0 here, as a maximum with +0; the manual does not say"),
    (".xorsign with one NaN operand", "the NaN's sign bit counts here; the manual does not say"),
];

/// Every row, in the order of the table.
#[must_use]
pub fn rows() -> Vec<Row> {
    let row = |operation: &str, standing, source: &str| Row {
        operation: operation.to_owned(),
        standing,
        source: source.trim_start_matches("likely: ").to_owned(),
    };
    let mut rows: Vec<Row> = DEFINED
        .iter()
        .map(|(operation, oracle)| row(operation, Standing::Defined, &format!("tested: {oracle}")))
        .collect();
    rows.extend(DETAILS.iter().map(|(operation, choice)| row(operation, Standing::Open, choice)));
    for function in Function::MODELLED {
        for sm in [80, 100] {
            let (confidence, source) = function.evidence(sm);
            let where_ = if sm == 80 { "sm_80, sm_89, sm_90" } else { "other generations" };
            let name = format!("MUFU.{} on {where_}", function.name().to_uppercase());
            rows.push(row(&name, standing(confidence, source), source));
        }
    }
    for argument in SineArgument::ALL {
        rows.push(row(
            &format!("sin.approx, cos.approx: argument path {}", argument.name()),
            Standing::Open,
            argument.source(),
        ));
    }
    for wrapper in Wrapper::ALL {
        let (confidence, source) = wrapper.evidence();
        rows.push(row(&format!("{} (without .ftz)", wrapper.instruction()), standing(confidence, source), source));
    }
    let follows = "a product with MUFU.RCP (gpu-arithmetic 5.5)";
    rows.push(row("div.approx.f32", Standing::Likely, follows));
    rows.push(row("expf, CUDA 11 and later", Standing::Likely, "one published value and the largest error agree"));
    rows.push(row("logf", Standing::Likely, "from public descriptions; error within the manual's 1 ulp"));
    rows.push(row(
        "sinf, cosf below 105615",
        Standing::Likely,
        "from public descriptions; error within the manual's 2 ulp",
    ));
    for tree in Tree::ALL {
        let (confidence, source) = tree.evidence();
        let standing = if tree == Tree::Sequential { Standing::Defined } else { standing(confidence, source) };
        rows.push(row(&format!("sum: {}", tree.name()), standing, source));
    }
    for walk in walks() {
        let (confidence, source) = walk.evidence();
        rows.push(row(&format!("GEMM walk: {}", walk.name()), standing(confidence, source), source));
    }
    rows.extend(
        Open::ALL
            .iter()
            .map(|open| row(open.operation(), Standing::Open, &format!("refused; would settle it: {}", open.probe()))),
    );
    rows
}

/// Sources say `likely` where evidence agrees short of a comparison.
fn standing(confidence: Confidence, source: &str) -> Standing {
    match confidence {
        Confidence::Hardware => Standing::Confirmed,
        Confidence::Documented => Standing::Defined,
        Confidence::Simulator => Standing::Likely,
        Confidence::Open if source.contains("likely") => Standing::Likely,
        Confidence::Open => Standing::Open,
    }
}

/// One walk of each kind.
fn walks() -> Vec<Walk> {
    let split = |combine| Walk::Split { slices: 2, tile: 64, combine, piece: Piece::Single };
    vec![
        Walk::Whole(Piece::Single),
        split(Combine::Serial),
        split(Combine::WorkspaceOutput),
        split(Combine::WorkspaceF32),
        Walk::Whole(Piece::Sliced { warps: 2, stripe: 32, tile: 64 }),
        Walk::StreamK { cuts: vec![64], order: vec![0, 1], piece: Piece::Single },
        Walk::Whole(Piece::Promoted { every: 128 }),
    ]
}

/// The table as Markdown.
#[must_use]
pub fn table() -> String {
    let mut text = String::from("| operation | standing | source |\n|---|---|---|\n");
    for Row { operation, standing, source } in rows() {
        text.push_str(&format!("| {operation} | {} | {source} |\n", standing.word()));
    }
    text
}
