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
pub(super) use dump::NAMED;
pub use dump::{BINADE, Dump};

use super::{Function, MufuTables, Row, SineArgument};
use crate::Error;
use constraint::{Constraint, constrain, datapath};
use segment::Segment;
pub(super) use segment::{A_LIMIT, Limits};

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
    /// RCP, RSQ, EX2, LG2, and SIN if there were dumps of sine or cosine.
    pub functions: Vec<FunctionFit>,
    /// The argument paths of sine and cosine under which every output is explained; empty without such dumps, or if
    /// neither path explains them.
    pub sine_arguments: Vec<SineArgument>,
    /// The profile.
    pub tables: MufuTables,
}

/// Fits one function to its dumps and to further samples `(operand, output)` in any range.
///
/// SIN and COS are fitted together, by [`fit_sine`].
///
/// # Bits
/// If the outcome is coefficients, the unit's function with them gives every output of the dumps and samples.
///
/// # Errors
/// [`Error::UnsupportedMufu`] for a function without a model; [`Error::MufuDump`] if a dump is of another function, or
/// some segment has fewer than three outputs.
pub fn fit(function: Function, dumps: &[Dump], samples: &[(u32, u32)]) -> Result<FunctionFit, Error> {
    function.model()?;
    if let Some(other) = dumps.iter().find(|dump| dump.function() != function) {
        return Err(Error::MufuDump {
            name: function.name().to_owned(),
            problem: format!("one of its dumps is of {}", other.function()),
        });
    }
    let samples: Vec<Sample> = samples.iter().map(|&(x, y)| (function, x, y)).collect();
    // The argument path matters to sine and cosine only.
    fit_outputs(function, SineArgument::DEFAULT, dumps, &samples)
}

/// Fits the common table of sine and cosine to dumps and samples of both, assuming an argument path.
///
/// # Errors
/// [`Error::MufuDump`] if a dump is of another function or of operands of 16 and more, or some segment has fewer than
/// three outputs.
pub fn fit_sine(argument: SineArgument, dumps: &[Dump], samples: &[Sample]) -> Result<FunctionFit, Error> {
    for dump in dumps {
        let refuse = |problem| Err(Error::MufuDump { name: dump.function().name().to_owned(), problem });
        if !matches!(dump.function(), Function::Sin | Function::Cos) {
            return refuse("it is neither of sine nor of cosine".to_owned());
        }
        if dump.start() & 0x7fff_ffff >= 0x4180_0000 {
            return refuse("dumps of operands below 16 determine the table; larger ones are not read".to_owned());
        }
    }
    fit_outputs(Function::Sin, argument, dumps, samples)
}

/// A function, an operand, its output.
pub type Sample = (Function, u32, u32);

fn fit_outputs(
    function: Function,
    argument: SineArgument,
    dumps: &[Dump],
    samples: &[Sample],
) -> Result<FunctionFit, Error> {
    let path = datapath(function)
        .ok_or_else(|| Error::UnsupportedMufu { function: function.name(), probe: "a description of its datapath" })?;
    let quadratic: Vec<i64> = (0..1 << path.remainder_bits).map(|r| path.quadratic(r)).collect();
    let mut segments = Vec::with_capacity(path.segments);
    let mut impossible = 0;
    for index in 0..path.segments {
        let mut segment = Segment::new(path, Limits::of(function), &quadratic);
        let near = dumps.iter().flat_map(|dump| outputs_near(argument, dump, index));
        for (function, x, y) in near.chain(samples.iter().copied()) {
            match constrain(function, argument, x, y) {
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

/// Fits all modelled functions; sine and cosine only if there are dumps of them (samples alone seldom determine the table).
///
/// Of the two argument paths of the sine the one that explains every output is taken, the first if both do. If neither
/// does, the fit of the first is reported, and the profile is without sine and cosine.
///
/// # Errors
/// Those of [`fit`] and [`fit_sine`], and [`Error::MufuDump`] if a function that does not fit cannot be listed either.
pub fn fit_all(dumps: &[Dump], samples: &[Sample]) -> Result<FitReport, Error> {
    let mut functions = Vec::new();
    for function in [Function::Rcp, Function::Rsq, Function::Ex2, Function::Lg2] {
        let own: Vec<Dump> = dumps.iter().filter(|dump| dump.function() == function).cloned().collect();
        let points: Vec<(u32, u32)> =
            samples.iter().filter(|sample| sample.0 == function).map(|&(_, x, y)| (x, y)).collect();
        functions.push(fit(function, &own, &points)?);
    }
    let is_sine = |function: Function| matches!(function, Function::Sin | Function::Cos);
    let own: Vec<Dump> = dumps.iter().filter(|dump| is_sine(dump.function())).cloned().collect();
    let points: Vec<Sample> = samples.iter().copied().filter(|sample| is_sine(sample.0)).collect();
    let mut sine_arguments = Vec::new();
    if !own.is_empty() {
        let mut first = None;
        for argument in SineArgument::ALL {
            let fit = fit_sine(argument, &own, &points)?;
            if fit.fits() {
                sine_arguments.push(argument);
            }
            if first.as_ref().is_none_or(|known: &FunctionFit| !known.fits() && fit.fits()) {
                first = Some(fit);
            }
        }
        functions.extend(first);
    }
    let usable = functions.iter().filter(|fit| !is_sine(fit.function) || fit.fits());
    let tables = MufuTables::from_outcomes(usable.map(|fit| (fit.function, &fit.outcome)))?;
    Ok(FitReport { functions, sine_arguments, tables })
}

/// The outputs of a dump that may belong to segment `index`: the blocks of consecutive operands that touch it.
fn outputs_near(argument: SineArgument, dump: &Dump, index: usize) -> impl Iterator<Item = Sample> + use<'_> {
    let function = dump.function();
    // Blocks no longer than a segment, so that their ends show which segments they touch. Operands of a sine below 16
    // move through a revolution in steps of up to five of its units.
    let block = match function {
        Function::Sin | Function::Cos => 1usize << 14,
        _ => datapath(function).map_or(BINADE, |path| 1 << path.remainder_bits),
    };
    let touches = move |start: usize| {
        // The ends of a block, and the operand after its first (the first may be special).
        [start, start + 1, start + block - 1].into_iter().any(|i| {
            let (x, y) = (dump.start() + i as u32, dump.outputs()[i]);
            match constrain(function, argument, x, y) {
                Constraint::Sum { segment, .. } | Constraint::Impossible { segment } => segment == index,
                Constraint::None => false,
            }
        })
    };
    (0..BINADE).step_by(block).filter(move |&start| touches(start)).flat_map(move |start| {
        (start..start + block).map(move |i| (function, dump.start() + i as u32, dump.outputs()[i]))
    })
}

fn describe(segment: &Segment<'_>) -> SegmentFit {
    let found = segment.solve();
    let row = found.canonical().unwrap_or_else(|| segment.nearest());
    SegmentFit { row, triples: found.count(), outputs: segment.known(), mismatches: segment.mismatches(row) }
}
