//! What is measured: prompts, schedules, an engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use engine::runtime::{Limits, pages_for};
use engine::scheduler::Settings;
use engine::{Engine, Mode, Model};
use margingate::gate::mix;
use record::calibration::{Load, Source};
use record::{Digest, U64Text};

use crate::argument;
use crate::source::{self, Emulation};

/// Most sequences, tokens and schedules of a run.
const MOST: u32 = 1 << 20;

/// Options that calibration and benchmark share.
#[derive(clap::Args)]
pub struct LoadArgs {
    /// Hugging Face model folder, GGUF file, or name of a pulled model [default: the model inside this binary]
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,

    /// GPU generation to emulate
    #[arg(long, value_name = "SM", default_value = "sm_90", value_parser = argument::profile)]
    profile: String,

    /// Prompts to calibrate on: a text file with one a line, or a `.jsonl` file with `problem`, `question`, `prompt` or `turns`; may be given several
    /// times [default: a few lines inside this binary]
    #[arg(long, value_name = "FILE")]
    prompts: Vec<PathBuf>,

    /// Sequences, over all files of prompts in equal shares
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = argument::count(1, MOST))]
    pub sequences: u32,

    /// Tokens decoded of each sequence
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = argument::count(2, MOST))]
    pub tokens: u32,

    /// Tokens of a prompt, at most: longer ones are cut, so that every prompt of a set can be used
    #[arg(long, value_name = "N", default_value_t = 192, value_parser = argument::count(2, MOST))]
    pub prompt_tokens: u32,

    /// Random schedules that every sequence runs under
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = argument::count(1, MOST))]
    pub schedules: u32,

    /// Sequences that share the steps of a schedule, at most
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = argument::count(2, 64))]
    pub group: u32,

    /// Decides the schedules
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Folder of finished parts: an interrupted run goes on from there [default: nothing is kept]
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,

    #[command(flatten)]
    emulation: Emulation,
}

/// A prompt of a set.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Which set.
    pub source: u32,
    /// Token ids.
    pub ids: Vec<u32>,
}

/// A set of prompts as it was read.
struct Set {
    name: String,
    sha256: Digest,
    texts: Vec<String>,
}

/// Prompts and where they come from.
pub struct Prompts {
    /// In groups order: sources take turns.
    pub all: Vec<Prompt>,
    /// The sets.
    pub sources: Vec<Source>,
}

impl LoadArgs {
    /// The model.
    pub fn model(&self) -> anyhow::Result<Arc<Model>> {
        Ok(Arc::new(source::model(self.model.as_deref())?))
    }

    /// Sequences of the calibration sets, then as many of the `others`.
    pub fn prompts(&self, model: &Model, others: &[PathBuf]) -> anyhow::Result<Prompts> {
        let mut sets = self.prompts.iter().map(|p| set(p)).collect::<anyhow::Result<Vec<_>>>()?;
        if sets.is_empty() {
            sets.push(embedded());
        }
        let first = sets.len();
        sets.extend(others.iter().map(|p| set(p)).collect::<anyhow::Result<Vec<_>>>()?);
        let room = (model.config.max_positions).saturating_sub(self.tokens) as usize;
        if room == 0 {
            bail!("--tokens {}: the model has {} positions", self.tokens, model.config.max_positions);
        }
        let mut all = Vec::new();
        let mut sources = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            let (members, position) =
                if number < first { (first, number) } else { (sets.len() - first, number - first) };
            let whole = if others.is_empty() { self.sequences } else { self.sequences.div_ceil(2) };
            let of_kind = if number < first { whole } else { self.sequences - whole };
            let own = (0..of_kind).filter(|i| *i as usize % members == position).count();
            for i in 0..own {
                // More sequences than prompts: they begin again, with a longer beginning dropped each time round.
                let text = &set.texts[i % set.texts.len()];
                let mut ids = model.tokenizer.encode(text)?;
                let skip = i / set.texts.len() * 3;
                if skip + 2 < ids.len() {
                    ids.drain(1..=skip);
                }
                ids.truncate((self.prompt_tokens as usize).min(room));
                if ids.is_empty() {
                    bail!("{}: prompt {} has no tokens", set.name, i + 1);
                }
                all.push(Prompt { source: number as u32, ids });
            }
            sources.push(Source { name: set.name.clone(), sha256: set.sha256, sequences: own as u32 });
        }
        Ok(Prompts { all, sources })
    }

    /// A gated engine that has not been told how to decide, for groups of these prompts.
    pub fn engine(&self, model: &Arc<Model>, prompts: &Prompts) -> anyhow::Result<Engine> {
        let longest = prompts.all.iter().map(|p| p.ids.len() as u32).max().unwrap_or(1) + self.tokens;
        let limits = Limits {
            slots: self.group,
            pages: pages_for(self.group, longest) + self.group,
            max_rows: longest.max(256),
        };
        let device = Box::new(self.emulation.device(&self.profile)?);
        Ok(Engine::new(model.clone(), device, Mode::Gated, limits)?)
    }

    /// The load as a calibration states it.
    pub fn stated(&self, prompts: &Prompts) -> Load {
        Load {
            sources: prompts.sources.clone(),
            prompt_tokens: self.prompt_tokens,
            tokens: self.tokens,
            schedules: self.schedules,
            group: self.group,
            seed: U64Text(self.seed),
        }
    }

    /// A random schedule of a group of `members` sequences.
    pub fn schedule(&self, group: u32, number: u32, members: usize) -> Schedule {
        let draw = |what: u32| mix(self.seed, u64::from(group) << 32 | u64::from(number), what);
        let mut order: Vec<usize> = (0..members).collect();
        order.sort_by_key(|i| draw(1000 + *i as u32));
        // Half of the schedules fill the batch; the others have any size.
        let together = if draw(1) % 2 == 0 { members } else { 1 + (draw(2) % members as u64) as usize };
        let chunk = [None, None, Some(16), Some(48)][(draw(3) % 4) as usize];
        Schedule { order, together, chunk, prefix_cache: draw(4) % 2 == 0 }
    }
}

/// Who comes when, and how the scheduler is set.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Members of the group in order of arrival.
    pub order: Vec<usize>,
    /// Requests in flight: another one comes when one ends.
    pub together: usize,
    /// Most prompt tokens of one request in a step.
    pub chunk: Option<u32>,
    /// Shared prefixes.
    pub prefix_cache: bool,
}

impl Schedule {
    /// Settings of the scheduler.
    pub fn settings(&self, max_rows: u32) -> Settings {
        Settings { chunk: self.chunk, prefix_cache: self.prefix_cache, ..Settings::plain(max_rows) }
    }
}

fn set(path: &Path) -> anyhow::Result<Set> {
    let text = source::text(path, source::MAX_PROMPTS)?;
    let json = path.extension().is_some_and(|e| e == "jsonl");
    let lines = (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty());
    let texts = lines.map(|(n, line)| {
        if json { field(line).with_context(|| format!("{}, line {n}", path.display())) } else { Ok(line.to_owned()) }
    });
    let texts = texts.collect::<anyhow::Result<Vec<String>>>()?;
    if texts.is_empty() {
        bail!("{} holds no prompt", path.display());
    }
    let name = path.file_name().map_or_else(|| "prompts".to_owned(), |n| n.to_string_lossy().into_owned());
    Ok(Set { name, sha256: Digest::of_file(text.as_bytes()), texts })
}

/// The prompt of a line of a public set.
fn field(line: &str) -> anyhow::Result<String> {
    let value: serde_json::Value = serde_json::from_str(line)?;
    let named = ["problem", "question", "prompt"].into_iter().find_map(|name| value.get(name)?.as_str());
    let turn = || value.get("turns")?.as_array()?.first()?.as_str();
    let text = named.or_else(turn).context("no `problem`, `question`, `prompt` or `turns`")?;
    Ok(text.to_owned())
}

/// Beginnings for the model inside this binary.
const LINES: &str = "And God said,\nIn the beginning was\nNow these are the names of\nThe words of the prophet\nAnd it came to pass in those days\n\
Blessed is the man that\nThen answered Jesus and said unto them,\nHear, O Israel:\nThe LORD is my\nAnd when the king heard\nFor unto every one that hath\n\
Therefore thus saith the Lord\nPraise ye the\nMy son, forget not\nAnd the children of Israel went\nWoe unto them that";

fn embedded() -> Set {
    let texts = LINES.lines().map(str::to_owned).collect();
    Set { name: "built-in lines".into(), sha256: Digest::of_file(LINES.as_bytes()), texts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_sets_are_read_by_their_fields() {
        assert_eq!(field(r#"{"problem": "p", "solution": "s"}"#).unwrap(), "p");
        assert_eq!(field(r#"{"question_id": 1, "turns": ["t", "u"]}"#).unwrap(), "t");
        assert_eq!(field(r#"{"task_id": "x", "prompt": "def f"}"#).unwrap(), "def f");
        assert!(field("{}").is_err() && field("x").is_err());
    }
}
