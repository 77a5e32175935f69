//! From a dump of a unit's outputs to its coefficients.
//!
//! A dump states every output over a binade ([`Dump`]): 2^16 or 2^17 outputs for the three integers of each segment.
//! Each output bounds the interpolator's sum; the search is exact ([`fit`] finds every triple that explains all outputs
//! of a segment, or shows that there is none) and chooses one canonically: smallest `|c|`, then smallest `|b|`, then
//! smallest `a`. The report says how many there were. Triples that explain all outputs of a complete dump are the same
//! function, so for RCP, RSQ and EX2 the choice cannot matter. For LG2 it could: operands just below 1 show low bits that
//! a dump of `[1, 2)` truncates. Samples of other binades narrow it then. (The committed dumps leave one triple each.)
//!
//! A function with a segment that does not fit is kept as the list of its outputs ([`Outcome::Listed`]).

mod constraint;
mod correct;
mod dump;
mod segment;

pub use correct::correctly_rounded;
pub use dump::{BINADE, Dump};

use super::datapath::Datapath;
use super::{Function, MufuTables, Row};
use crate::Error;
use constraint::{Constraint, constrain, datapath};
use segment::Segment;
pub(super) use segment::{A_LIMIT, B_LIMIT, C_LIMIT};

/// What the fit found for one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFit {
    /// The chosen coefficients; for a segment that does not fit, coefficients close to its outputs.
    pub row: Row,
    /// How many coefficient triples explain every output; 0 if the segment does not fit.
    pub triples: u64,
    /// Remainders whose output is known.
    pub outputs: usize,
    /// Outputs that `row` does not explain.
    pub mismatches: usize,
}

/// What stands for a function in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every segment fits: coefficients.
    Rows(Vec<Row>),
    /// Some segment does not: the dumps themselves, to be stored as correction files.
    Listed(Vec<Dump>),
}

/// The fit of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionFit {
    /// The function.
    pub function: Function,
    /// One entry a segment, in order.
    pub segments: Vec<SegmentFit>,
    /// What the tables will hold.
    pub outcome: Outcome,
    /// The numbers of the operands whose output no coefficients can give, because sign, exponent or a special case is
    /// wrong.
    pub impossible: usize,
}

impl FunctionFit {
    /// True if every output is explained.
    #[must_use]
    pub fn fits(&self) -> bool {
        matches!(self.outcome, Outcome::Rows(_))
    }

    /// The segments that do not fit.
    pub fn misfits(&self) -> impl Iterator<Item = (usize, &SegmentFit)> {
        self.segments.iter().enumerate().filter(|(_, segment)| segment.triples == 0)
    }

    /// The largest number of triples that explain one segment: 1 if all coefficients are determined.
    #[must_use]
    pub fn most_triples(&self) -> u64 {
        self.segments.iter().map(|segment| segment.triples).max().unwrap_or(0)
    }
}

/// The fit of a whole unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitReport {
    /// RCP, RSQ, EX2, LG2.
    pub functions: Vec<FunctionFit>,
    /// The profile.
    pub tables: MufuTables,
}

/// Fits one function to its dumps and to further samples `(operand, output)` in any range.
///
/// # Bits
/// If the outcome is coefficients, the unit's function with them gives every output of the dumps and samples.
///
/// # Errors
/// [`Error::UnsupportedMufu`] for a function without a model; [`Error::MufuDump`] if a dump is of another function, or
/// some segment has fewer than three outputs.
pub fn fit(function: Function, dumps: &[Dump], samples: &[(u32, u32)]) -> Result<FunctionFit, Error> {
    function.model()?;
    let path = datapath(function)
        .ok_or_else(|| Error::UnsupportedMufu { function: function.name(), probe: "a description of its datapath" })?;
    if let Some(other) = dumps.iter().find(|dump| dump.function() != function) {
        return Err(Error::MufuDump {
            name: function.name().to_owned(),
            problem: format!("one of its dumps is of {}", other.function()),
        });
    }
    let quadratic: Vec<i64> = (0..1 << path.remainder_bits).map(|r| path.quadratic(r)).collect();
    let mut segments = Vec::with_capacity(path.segments);
    let mut impossible = 0;
    for index in 0..path.segments {
        let mut segment = Segment::new(path, &quadratic);
        for (x, y) in
            dumps.iter().flat_map(|dump| outputs_near(path, function, dump, index)).chain(samples.iter().copied())
        {
            match constrain(function, x, y) {
                Constraint::Sum { segment: i, r, low, high } if i == index => segment.bound(r, low, high),
                Constraint::Impossible { segment: i } if i == index => impossible += 1,
                _ => {}
            }
        }
        if segment.known() < 3 {
            return Err(Error::MufuDump {
                name: function.name().to_owned(),
                problem: format!("segment {index} has {} outputs; a dump of every binade is needed", segment.known()),
            });
        }
        segments.push(describe(&segment));
    }
    let outcome = if impossible == 0 && segments.iter().all(|segment| segment.triples > 0) {
        Outcome::Rows(segments.iter().map(|segment| segment.row).collect())
    } else {
        Outcome::Listed(dumps.to_vec())
    };
    Ok(FunctionFit { function, segments, outcome, impossible })
}

/// Fits all modelled functions.
///
/// `samples` are triples of function, operand and output.
///
/// # Errors
/// Those of [`fit`], and [`Error::MufuDump`] if a function that does not fit cannot be listed either.
pub fn fit_all(dumps: &[Dump], samples: &[(Function, u32, u32)]) -> Result<FitReport, Error> {
    let mut functions = Vec::new();
    for function in Function::MODELLED {
        let own: Vec<Dump> = dumps.iter().filter(|dump| dump.function() == function).cloned().collect();
        let points: Vec<(u32, u32)> =
            samples.iter().filter(|sample| sample.0 == function).map(|&(_, x, y)| (x, y)).collect();
        functions.push(fit(function, &own, &points)?);
    }
    let tables = MufuTables::from_outcomes(functions.iter().map(|fit| (fit.function, &fit.outcome)))?;
    Ok(FitReport { functions, tables })
}

/// The outputs of a dump that may belong to segment `index`: the blocks of consecutive operands that touch it.
fn outputs_near<'a>(
    path: &Datapath,
    function: Function,
    dump: &'a Dump,
    index: usize,
) -> impl Iterator<Item = (u32, u32)> + use<'a> {
    let block = 1usize << path.remainder_bits;
    let touches = move |start: usize| {
        // The ends of a block, and the operand after its first (the first may be special).
        [start, start + 1, start + block - 1].into_iter().any(|i| {
            let (x, y) = (dump.start() + i as u32, dump.outputs()[i]);
            match constrain(function, x, y) {
                Constraint::Sum { segment, .. } | Constraint::Impossible { segment } => segment == index,
                Constraint::None => false,
            }
        })
    };
    (0..BINADE)
        .step_by(block)
        .filter(move |&start| touches(start))
        .flat_map(move |start| (start..start + block).map(|i| (dump.start() + i as u32, dump.outputs()[i])))
}

fn describe(segment: &Segment<'_>) -> SegmentFit {
    let found = segment.solve();
    let row = found.canonical().unwrap_or_else(|| segment.nearest());
    SegmentFit { row, triples: found.count(), outputs: segment.known(), mismatches: segment.mismatches(row) }
}
