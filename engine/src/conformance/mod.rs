//! Conformance of a device: does it compute the bits of the profile it claims?
//!
//! A device under test (the *subject*) and the emulated device of its profile run the same kernels on the same inputs, and every output is
//! compared bit for bit: [`Part`] by part, the matrix instructions, special functions and scalar operations through small probes, then
//! every kernel of the engine, then whole models. What the subject answered can be kept as vector files ([`Answer`]), with which the
//! emulator can be judged later, on a machine without that device.
//!
//! With an emulated subject the suite tests the probes: they must find nothing.
//!
//! # Bits
//! No tolerance anywhere. Where the sources leave a rule open (the profile's switches), the profile's default is what a subject is compared
//! with; a difference there is a finding about the profile, not about the card.

mod bench;
mod data;
mod kernels;
mod matrix;
mod model;
mod scalar;
mod special;
mod vector;

use emulator::profile::Profile;
use serde::Serialize;

use crate::device::{Device, DeviceInfo, EmulatedDevice};
use crate::error::{Error, Result};
pub use kernels::texts as kernel_cases;
pub use matrix::probes as matrix_probes;
pub use scalar::probes as scalar_probes;
pub use special::probes as special_probes;
pub use vector::Vector;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Matrix instructions.
    Matrix,
    /// The special function unit.
    Special,
    /// Scalar arithmetic, comparisons, conversions.
    Scalar,
    /// The engine's kernels.
    Kernels,
    /// Logits of whole models.
    Model,
}

impl Part {
    /// Every part, in the order in which they run.
    pub const ALL: [Self; 5] = [Self::Matrix, Self::Special, Self::Scalar, Self::Kernels, Self::Model];

    /// Its name in reports and of its vector file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matrix => "matrix",
            Self::Special => "special",
            Self::Scalar => "scalar",
            Self::Kernels => "kernels",
            Self::Model => "model",
        }
    }
}

/// One instruction, kernel or model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The part it belongs to.
    pub part: Part,
    /// `mma m16n8k16.f32.bf16.bf16.f32`, `add.rz.f32`, `rmsnorm 5x200`.
    pub what: String,
    /// Answers compared: outputs of an instruction, of a kernel, logits.
    pub cases: u64,
    /// Those that are equal.
    pub passed: u64,
    /// Those that are not.
    pub failed: u64,
    /// Why nothing was compared, if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_covered: Option<String>,
    /// The first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<String>,
}

/// A line of a vector file: what the subject answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The file it belongs to.
    pub part: Part,
    /// The line.
    pub line: serde_json::Value,
}

/// Who watches a run.
pub trait Watch {
    /// Something was compared.
    fn row(&mut self, row: &Row);

    /// The subject answered. An error ends the run.
    ///
    /// # Errors
    /// Whatever keeps the answer from being kept.
    fn answer(&mut self, answer: Answer) -> std::io::Result<()>;
}

/// What is run.
pub struct Suite<'a> {
    /// Makes the subject: several times, the same device each time.
    pub subject: &'a mut dyn FnMut() -> Result<Box<dyn Device>>,
    /// Makes the emulated device of a profile.
    pub reference: &'a dyn Fn(&Profile) -> EmulatedDevice,
    /// Vectors that are run beside our own cases: those of the subject's architecture count.
    pub vectors: &'a [Vector],
    /// Every operand of every special function, 2^32 each.
    pub deep: bool,
    /// The parts.
    pub parts: &'a [Part],
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The subject.
    pub device: DeviceInfo,
    /// Its parts, in the order in which they ran.
    pub rows: Vec<Row>,
}

impl Suite<'_> {
    /// Runs the parts.
    ///
    /// # Errors
    /// Those of the devices. A probe that the subject's compiler refuses is a row that is not covered; a launch that fails ends the run.
    pub fn run(&mut self, watch: &mut dyn Watch) -> Result<Found> {
        let subject = (self.subject)()?;
        let device = subject.info();
        let unknown = || Error::UnknownProfile { name: device.profile.clone(), known: String::new() };
        let profile = Profile::by_name(&device.profile).ok_or_else(unknown)?;
        let mut pair = bench::Pair { subject, reference: (self.reference)(profile), profile, rows: Vec::new(), watch };
        for part in self.parts {
            match part {
                Part::Matrix => matrix::run(&mut pair, self.vectors)?,
                Part::Special => special::run(&mut pair, self.deep)?,
                Part::Scalar => scalar::run(&mut pair)?,
                Part::Kernels => kernels::run(&mut pair)?,
                Part::Model => model::run(&mut pair, self.subject, self.reference)?,
            }
        }
        Ok(Found { rows: pair.rows, device })
    }
}

/// What vector files call a device: a GPU by its driver's name. Whatever is no hardware says so, here and in the loopback driver's name.
#[must_use]
pub fn device_name(device: &DeviceInfo) -> String {
    match &device.gpu {
        Some(gpu) => gpu.model.clone(),
        None => format!("{} {}, not a GPU", device.kind, device.profile),
    }
}
