//! Every kernel of the engine on random and edge inputs.

mod attention;
mod rows;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::Part;
use super::bench::{Given, Pair, Tally};
use crate::error::Result;
use crate::kernels::{KernelText, for_volta};

/// A launch of a kernel.
#[derive(Clone)]
struct Case {
    /// `rmsnorm 5x200, any bits`.
    what: String,
    kernel: KernelText,
    grid: [u32; 3],
    args: Vec<Argument>,
}

/// An argument that owns its bytes.
#[derive(Clone)]
enum Argument {
    In(Vec<u8>),
    InOut(Vec<u8>),
    /// An output of so many elements of so many bytes.
    Out(usize, usize),
    U32(u32),
}

impl Argument {
    fn given(&self) -> Given<'_> {
        match self {
            Self::In(bytes) => Given::In(bytes),
            Self::InOut(bytes) => Given::InOut(bytes),
            Self::Out(count, width) => Given::Out(count * width),
            Self::U32(value) => Given::U32(*value),
        }
    }

    /// Bytes of an element, for messages, if it is an output.
    fn element(&self) -> Option<usize> {
        match self {
            Self::InOut(_) => Some(2),
            Self::Out(_, width) => Some(*width),
            _ => None,
        }
    }
}

fn cases() -> Vec<Case> {
    let mut out = rows::cases();
    out.extend(attention::cases());
    // Mode portable launches the texts that older GPUs take too.
    let older: Vec<Case> = out
        .iter()
        .filter_map(|case| {
            let what = format!("{}, as Volta takes it", case.what);
            Some(Case { what, kernel: for_volta(&case.kernel)?, ..case.clone() })
        })
        .collect();
    out.extend(older);
    out
}

/// The kernels that are launched, each text once.
#[must_use]
pub fn texts() -> Vec<KernelText> {
    let mut out: Vec<KernelText> = Vec::new();
    for case in cases() {
        if !out.contains(&case.kernel) {
            out.push(case.kernel);
        }
    }
    out
}

pub(super) fn run(pair: &mut Pair<'_>) -> Result<()> {
    for case in cases() {
        let both = pair.kernel(&case.kernel)?;
        let args: Vec<Given> = case.args.iter().map(Argument::given).collect();
        let outputs = pair.launch(both, case.grid, &args)?;
        let mut tally = Tally::default();
        let widths = case.args.iter().filter_map(Argument::element);
        for (i, ((found, expected), width)) in outputs.subject.iter().zip(&outputs.reference).zip(widths).enumerate() {
            tally.add_elements(&format!("output {i}"), found, expected, width);
        }
        let digest = |bytes: &[u8]| hex::encode(Sha256::digest(bytes));
        let inputs: Vec<String> = case
            .args
            .iter()
            .map(|a| match a {
                Argument::In(bytes) | Argument::InOut(bytes) => digest(bytes),
                Argument::Out(count, width) => format!("{} bytes", count * width),
                Argument::U32(value) => value.to_string(),
            })
            .collect();
        pair.answer(
            Part::Kernels,
            &[
                ("case", case.what.clone().into()),
                ("kernel", case.kernel.name.clone().into()),
                ("ptx_sha256", digest(case.kernel.ptx.as_bytes()).into()),
                ("arguments", json!(inputs)),
                ("outputs_sha256", json!(outputs.subject.iter().map(|o| digest(o)).collect::<Vec<_>>())),
            ],
        )?;
        pair.row(Part::Kernels, &case.what, tally);
    }
    Ok(())
}
