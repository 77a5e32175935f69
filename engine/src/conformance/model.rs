//! Logits of the embedded model, in every mode: prompts of different lengths together, then steps of decoding.

use std::sync::Arc;

use emulator::profile::Profile;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::Part;
use super::bench::{Pair, Tally, hex_elements};
use super::data::bytes32;
use crate::batch::{BatchOptions, Operator, OperatorError, Request, StepLog, generate};
use crate::device::{Device, EmulatedDevice};
use crate::error::Result;
use crate::model::{self, Model};
use crate::policy::Mode;
use crate::runtime::{Engine, Limits};
use crate::step::Observe;

const PROMPTS: [&str; 3] = [
    "In the beginning",
    "And the LORD said unto Moses, Stretch out thine hand toward heaven, that there may be darkness over the land",
    "Jesus wept",
];
/// Tokens chosen after each prompt.
const TOKENS: u32 = 6;
/// Logits of a row that a vector file shows; of all of them it has the digest.
const SHOWN: usize = 8;

/// A row of logits: the step, and its place in it.
struct Logits {
    step: usize,
    row: usize,
    bits: Vec<u32>,
}

#[derive(Default)]
struct Keep {
    rows: Vec<Logits>,
    steps: usize,
}

impl Operator for Keep {
    fn step(&mut self, step: &StepLog<'_>) -> std::result::Result<(), OperatorError> {
        for (row, output) in step.output.rows.iter().enumerate() {
            if let Some(bits) = &output.logits {
                self.rows.push(Logits { step: self.steps, row, bits: bits.clone() });
            }
        }
        self.steps += 1;
        Ok(())
    }
}

pub(super) fn run(
    pair: &mut Pair<'_>,
    subject: &mut dyn FnMut() -> Result<Box<dyn Device>>,
    reference: &dyn Fn(&Profile) -> EmulatedDevice,
) -> Result<()> {
    let model = Arc::new(model::embedded()?);
    for mode in Mode::ALL {
        let found = logits(&model, subject()?, mode)?;
        let expected = logits(&model, Box::new(reference(pair.profile)), mode)?;
        let mut tally = Tally::default();
        for (f, e) in found.iter().zip(&expected) {
            let what = format!("step {} row {} logit", f.step, f.row);
            tally.add_elements(&what, &bytes32(&f.bits), &bytes32(&e.bits), 4);
        }
        // A token chosen otherwise changes which rows there are.
        tally.add(found.len() == expected.len(), || format!("{} rows, expected {}", found.len(), expected.len()));
        for row in &found {
            let bytes = bytes32(&row.bits);
            pair.answer(
                Part::Model,
                &[
                    ("model", model.name.clone().into()),
                    ("mode", mode.name().into()),
                    ("step", row.step.into()),
                    ("row", row.row.into()),
                    ("logits", row.bits.len().into()),
                    ("first", hex_elements(&bytes[..4 * SHOWN.min(row.bits.len())], 4).into()),
                    ("sha256", json!(hex::encode(Sha256::digest(&bytes)))),
                ],
            )?;
        }
        pair.row(Part::Model, &format!("{} in mode {}", model.name, mode.name()), tally);
    }
    Ok(())
}

fn logits(model: &Arc<Model>, device: Box<dyn Device>, mode: Mode) -> Result<Vec<Logits>> {
    let limits = Limits { slots: PROMPTS.len() as u32, pages: 24, max_rows: 256 };
    let mut engine = Engine::new(model.clone(), device, mode, limits)?;
    let request = |text: &&str| Ok(Request::new(model.tokenizer.encode(text)?, TOKENS));
    let requests = PROMPTS.iter().map(request).collect::<Result<Vec<_>>>()?;
    let options = BatchOptions { chunk: None, observe: Observe { logits: true, ..Observe::TOKENS } };
    let mut keep = Keep::default();
    generate(&mut engine, &requests, &options, &mut keep)?;
    Ok(keep.rows)
}
