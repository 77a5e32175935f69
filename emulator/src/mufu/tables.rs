//! The coefficients of the unit, or what stands in for them.

use super::datapath::Datapath;
use super::fit::{A_LIMIT, Limits, Outcome};
use super::{Function, LEADING, listing};
use crate::Error;
use std::sync::{Arc, OnceLock};

/// The coefficients of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    /// Constant.
    pub a: i32,
    /// Linear.
    pub b: i32,
    /// Quadratic.
    pub c: i32,
}

/// The coefficients of `N` segments, one array a coefficient (the warp paths gather from them).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<const N: usize> {
    pub(super) a: [i32; N],
    pub(super) b: [i32; N],
    pub(super) c: [i32; N],
}

impl<const N: usize> Rows<N> {
    /// Table of these rows.
    #[must_use]
    pub fn new(rows: &[Row; N]) -> Self {
        Self { a: rows.map(|row| row.a), b: rows.map(|row| row.b), c: rows.map(|row| row.c) }
    }

    /// The coefficients of segment `i`.
    ///
    /// # Panics
    /// If `i` is not below `N`.
    #[must_use]
    pub fn row(&self, i: usize) -> Row {
        Row { a: self.a[i], b: self.b[i], c: self.c[i] }
    }
}

/// How the significand of a result is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit<const N: usize> {
    /// By the interpolator.
    Interpolated(Rows<N>),
    /// By looking it up: a unit whose dump does not fit the interpolator. One significand in `[2^23, 2^24]` a fraction.
    Listed(Arc<[u32]>),
}

impl<const N: usize> Unit<N> {
    /// The significand of the result for a fraction that belongs to `path`.
    pub(super) fn significand(&self, path: &Datapath, fraction: u32) -> u32 {
        match self {
            Self::Interpolated(rows) => {
                let (segment, r) = path.split(fraction);
                // Widths are checked when tables are made, so the value fits 32 bits; fitted rows stay in the range.
                (path.interpolate(rows.row(segment), r) as i32).clamp(LEADING as i32, 2 * LEADING as i32) as u32
            }
            Self::Listed(significands) => significands[fraction as usize],
        }
    }
}

/// Everything the unit's functions look up.
///
/// A profile without sine and cosine has none of them: [`sin`](super::sin()) refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MufuTables {
    pub(super) rcp: Unit<128>,
    pub(super) rsq: Unit<128>,
    pub(super) ex2: Unit<64>,
    pub(super) lg2: Rows<64>,
    /// Sine and cosine; absent from profiles fitted without dumps of them.
    pub(super) sin: Option<Rows<64>>,
}

impl MufuTables {
    /// The profile fitted from the committed dumps: the interpolator of the G80 lineage, which the evidence of
    /// `specs/gpu-arithmetic.md` 6.1 extends to current generations.
    #[must_use]
    pub fn g80() -> &'static Self {
        static TABLES: OnceLock<MufuTables> = OnceLock::new();
        TABLES.get_or_init(|| {
            Self::parse(include_str!("../../data/mufu-g80.txt")).expect("the committed profile parses (tested)")
        })
    }

    /// Tables from what a fit found; each modelled function once.
    pub(super) fn from_outcomes<'a>(
        outcomes: impl Iterator<Item = (Function, &'a Outcome)> + Clone,
    ) -> Result<Self, Error> {
        let of = |function: Function| outcomes.clone().find(|(f, _)| *f == function).map(|(_, outcome)| outcome);
        let missing = |function: Function| Error::MufuDump {
            name: function.name().to_owned(),
            problem: "it is neither fitted nor listed".to_owned(),
        };
        let unit = |function| of(function).ok_or_else(|| missing(function));
        let lg2 = match unit(Function::Lg2)? {
            Outcome::Rows(rows) => rows_of(Function::Lg2, rows)?,
            Outcome::Listed(_) => {
                return Err(Error::MufuDump {
                    name: Function::Lg2.name().to_owned(),
                    problem: "it does not fit, and its outputs over one binade do not determine those over the others"
                        .to_owned(),
                });
            }
        };
        let sin = match of(Function::Sin) {
            None => None,
            Some(Outcome::Rows(rows)) => Some(rows_of(Function::Sin, rows)?),
            Some(Outcome::Listed(_)) => {
                return Err(Error::MufuDump {
                    name: Function::Sin.name().to_owned(),
                    problem:
                        "it does not fit, and outputs of truncated sums do not list those of other quadrants; fit it \
                              without its dumps and keep them"
                            .to_owned(),
                });
            }
        };
        Ok(Self {
            rcp: unit_of(Function::Rcp, unit(Function::Rcp)?, &[0x3f80_0000])?,
            rsq: unit_of(Function::Rsq, unit(Function::Rsq)?, &[0x3f80_0000, 0x4000_0000])?,
            ex2: unit_of(Function::Ex2, unit(Function::Ex2)?, &[0x3f80_0000])?,
            lg2,
            sin,
        })
    }

    /// The coefficients of a function, or `None` if it is listed instead (or has no model).
    #[must_use]
    pub fn rows(&self, function: Function) -> Option<Vec<Row>> {
        fn all<const N: usize>(unit: &Unit<N>) -> Option<Vec<Row>> {
            match unit {
                Unit::Interpolated(rows) => Some((0..N).map(|i| rows.row(i)).collect()),
                Unit::Listed(_) => None,
            }
        }
        match function {
            Function::Rcp => all(&self.rcp),
            Function::Rsq => all(&self.rsq),
            Function::Ex2 => all(&self.ex2),
            Function::Lg2 => Some((0..64).map(|i| self.lg2.row(i)).collect()),
            Function::Sin | Function::Cos => self.sin.as_ref().map(|rows| (0..64).map(|i| rows.row(i)).collect()),
            Function::Sqrt | Function::Tanh => None,
        }
    }
}

/// Rows of the right number and width.
pub(super) fn rows_of<const N: usize>(function: Function, rows: &[Row]) -> Result<Rows<N>, Error> {
    let refuse = |problem| Error::MufuDump { name: function.name().to_owned(), problem };
    let rows: &[Row; N] =
        rows.try_into().map_err(|_| refuse(format!("it has {} segments; the unit has {N}", rows.len())))?;
    let limits = Limits::of(function);
    let fits = |row: &Row| (0..=A_LIMIT).contains(&row.a) && row.b.abs() < limits.b && row.c.abs() < limits.c;
    match rows.iter().position(|row| !fits(row)) {
        Some(i) => Err(refuse(format!("segment {i}: a coefficient is wider than the unit's ({})", limits.text))),
        None => Ok(Rows::new(rows)),
    }
}

/// A unit from a fit, or from the dumps that start at `starts`.
fn unit_of<const N: usize>(function: Function, outcome: &Outcome, starts: &[u32]) -> Result<Unit<N>, Error> {
    match outcome {
        Outcome::Rows(rows) => rows_of(function, rows).map(Unit::Interpolated),
        Outcome::Listed(dumps) => listing::list(function, dumps, starts),
    }
}
