//! Two devices side by side: the same launch on both, outputs compared.

use emulator::profile::Profile;
use ptx::ast::{Kernel, Module};
use serde_json::{Map, Value};

use super::{Answer, Part, Row, Watch, device_name};
use crate::device::{Arg, Buffer, Device, EmulatedDevice, KernelId};
use crate::error::{Error, Result};
use crate::kernels::KernelText;

/// What output memory holds before a launch: bytes a kernel leaves alone are compared as well.
const UNWRITTEN: u8 = 0xa5;

/// The text of a module that holds this one probe.
pub(super) fn text(kernel: Kernel, threads: u32) -> KernelText {
    text_of(Module::new(vec![kernel]), threads)
}

/// The text of a module of one probe with a header of its own.
pub(super) fn text_of(module: Module, threads: u32) -> KernelText {
    let name = module.kernels.first().map(|k| k.name.clone()).unwrap_or_default();
    KernelText { name, ptx: ptx::print(&module), block: [threads, 1, 1], spec: None }
}

/// An argument of a launch.
#[derive(Clone, Copy)]
pub(super) enum Given<'a> {
    In(&'a [u8]),
    InOut(&'a [u8]),
    /// So many bytes that are written.
    Out(usize),
    U32(u32),
}

/// The device under test and the emulated one of its profile.
pub(super) struct Pair<'a> {
    pub subject: Box<dyn Device>,
    pub reference: EmulatedDevice,
    pub profile: &'static Profile,
    pub rows: Vec<Row>,
    pub watch: &'a mut dyn Watch,
}

/// A kernel on both devices.
#[derive(Clone, Copy)]
pub(super) struct Both {
    subject: KernelId,
    reference: KernelId,
}

/// What both devices made of a launch: the output buffers in the order of the arguments.
pub(super) struct Outputs {
    pub subject: Vec<Vec<u8>>,
    pub reference: Vec<Vec<u8>>,
}

impl Pair<'_> {
    /// Registers a probe with both; `Err` inside says which of them refuses it, and why.
    pub fn probe(&mut self, kernel: &KernelText) -> Result<std::result::Result<Both, String>> {
        // What the emulator has no model for cannot be compared.
        let reference = match self.reference.register_probe(kernel) {
            Ok(id) => id,
            Err(Error::Device { detail, .. }) => return Ok(Err(format!("not modelled: {detail}"))),
            Err(e) => return Err(e),
        };
        Ok(match self.subject.register_probe(kernel) {
            Ok(subject) => Ok(Both { subject, reference }),
            Err(Error::Device { detail, .. }) => Err(format!("refused by the device: {detail}")),
            Err(e) => return Err(e),
        })
    }

    /// Registers a kernel of the engine.
    pub fn kernel(&mut self, kernel: &KernelText) -> Result<Both> {
        Ok(Both { subject: self.subject.register(kernel)?, reference: self.reference.register(kernel)? })
    }

    /// Runs a launch on both.
    pub fn launch(&mut self, kernel: Both, grid: [u32; 3], args: &[Given]) -> Result<Outputs> {
        Ok(Outputs {
            subject: launch(self.subject.as_mut(), kernel.subject, grid, args)?,
            reference: launch(&mut self.reference, kernel.reference, grid, args)?,
        })
    }

    /// Runs a probe on the subject alone; `None` if it refuses the kernel.
    pub fn subject_alone(
        &mut self,
        kernel: &KernelText,
        grid: [u32; 3],
        args: &[Given],
    ) -> Result<Option<Vec<Vec<u8>>>> {
        match self.subject.register_probe(kernel) {
            Ok(id) => launch(self.subject.as_mut(), id, grid, args).map(Some),
            Err(Error::Device { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reports what was compared.
    pub fn row(&mut self, part: Part, what: &str, tally: Tally) {
        let Tally { cases, failed, first } = tally;
        let row = Row {
            part,
            what: what.to_owned(),
            cases,
            passed: cases - failed,
            failed,
            not_covered: None,
            first_difference: first,
        };
        self.watch.row(&row);
        self.rows.push(row);
    }

    /// Reports what was not.
    pub fn not_covered(&mut self, part: Part, what: &str, why: String) {
        let row = Row {
            part,
            what: what.to_owned(),
            cases: 0,
            passed: 0,
            failed: 0,
            not_covered: Some(why),
            first_difference: None,
        };
        self.watch.row(&row);
        self.rows.push(row);
    }

    /// Hands on an answer of the subject: `fields` and where it comes from.
    pub fn answer(&mut self, part: Part, fields: &[(&str, Value)]) -> Result<()> {
        let mut line = Map::new();
        let device = device_name(&self.subject.info());
        line.insert("gpu".to_owned(), device.into());
        line.insert("arch".to_owned(), self.profile.architecture.into());
        line.insert("sm".to_owned(), self.profile.name.into());
        line.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self.watch.answer(Answer { part, line: line.into() }).map_err(|e| Error::Observer(e.into()))
    }
}

/// Answers compared so far.
#[derive(Default)]
pub(super) struct Tally {
    pub cases: u64,
    failed: u64,
    first: Option<String>,
}

impl Tally {
    /// Compares one answer; `words` are for the first that differs.
    pub fn add(&mut self, equal: bool, words: impl FnOnce() -> String) {
        self.cases += 1;
        if !equal {
            self.failed += 1;
            self.first.get_or_insert_with(words);
        }
    }

    /// Compares elements of `width` bytes of one output; `what` says which output it is.
    pub fn add_elements(&mut self, what: &str, subject: &[u8], reference: &[u8], width: usize) {
        for (i, (found, expected)) in subject.chunks(width).zip(reference.chunks(width)).enumerate() {
            self.add(found == expected, || format!("{what}[{i}]: {}, expected {}", hex_le(found), hex_le(expected)));
        }
    }
}

/// A little-endian number as hex digits, most significant first.
pub(super) fn hex_le(bytes: &[u8]) -> String {
    bytes.iter().rev().map(|b| format!("{b:02x}")).collect()
}

/// Numbers of `width` bytes as hex, one after another.
pub(super) fn hex_elements(bytes: &[u8], width: usize) -> String {
    bytes.chunks(width).map(hex_le).collect()
}

fn launch(device: &mut dyn Device, kernel: KernelId, grid: [u32; 3], args: &[Given]) -> Result<Vec<Vec<u8>>> {
    let mut values: Vec<Arg> = Vec::new();
    let (mut buffers, mut written): (Vec<Buffer>, Vec<Buffer>) = (Vec::new(), Vec::new());
    for arg in args {
        let unwritten;
        let bytes = match *arg {
            Given::In(bytes) | Given::InOut(bytes) => bytes,
            Given::Out(len) => {
                unwritten = vec![UNWRITTEN; len];
                &unwritten
            }
            Given::U32(value) => {
                values.push(Arg::U32(value));
                continue;
            }
        };
        let buffer = device.alloc(bytes.len() as u64)?;
        device.upload(buffer.address, bytes)?;
        if matches!(arg, Given::InOut(_) | Given::Out(_)) {
            written.push(buffer);
        }
        buffers.push(buffer);
        values.push(buffer.arg());
    }
    device.launch(kernel, grid, &values)?;
    let mut outputs = Vec::new();
    for buffer in written {
        let mut bytes = vec![0; buffer.bytes as usize];
        device.download(buffer.address, &mut bytes)?;
        outputs.push(bytes);
    }
    for buffer in buffers {
        device.free(buffer)?;
    }
    Ok(outputs)
}
