//! Step commitments: row leaf, step root, chain. Specified by `docs/spec/step-commitments.md`.
//!
//! ```text
//! leaf  = H(tag || request || position || token || chosen || logits || K || V || boundaries [|| activations])
//! root  = RFC 6962 root of the step's leaves, in row order
//! chain = H(tag || chain before || root || schedule digest)
//! ```
//!
//! Each component is itself a digest, and K, V, boundaries and activations are digests of *lists* of tensor
//! digests, so one layer can be opened without revealing another.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::digest::{Digest, Tagged, of_json};
use crate::inference::{Schedule, Step};
use crate::merkle;
use crate::tensor::TensorView;

/// How much of a row's computation its leaf commits to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EvidenceLevel {
    /// State: logits, K and V columns, block boundaries.
    S,
    /// Activations: all of `S` and the output of every operation.
    A,
}

/// Which row of which step: the part of a leaf that is not a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowId<'a> {
    /// The request's id as written in the record.
    pub request: &'a str,
    /// Position in the request's token sequence, prompt first, from 0.
    pub position: u32,
    /// The token id at this position: the row's input.
    pub token: u32,
    /// The token id chosen from this row's logits; `None` when none was (inner prompt positions).
    pub chosen: Option<u32>,
}

/// Digests of a row's tensors, in the order in which they enter the leaf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowComponents {
    /// Tensor digest of the f32 logits, shape `(vocab)`; `None` when the step did not compute them for this row.
    pub logits: Option<Digest>,
    /// List digest over layers of the K column's tensor digest, shape `(kv_heads, head_dim)`, as stored in the cache.
    pub k: Digest,
    /// The same for V.
    pub v: Digest,
    /// List digest over `boundary_0 ..= boundary_L` of the residual stream's tensor digest, shape `(hidden)`.
    pub boundaries: Digest,
    /// Named-list digest over all operations; present at level `A` only.
    pub activations: Option<Digest>,
}

/// A row's tensors, borrowed from the engine.
#[derive(Debug, Clone, Default)]
pub struct RowEvidence<'a> {
    /// Logits, when computed.
    pub logits: Option<TensorView<'a>>,
    /// K column of each layer.
    pub k: Vec<TensorView<'a>>,
    /// V column of each layer.
    pub v: Vec<TensorView<'a>>,
    /// Residual stream at the embedding and after each block.
    pub boundaries: Vec<TensorView<'a>>,
    /// Output of every operation in execution order, by path (`layers.3.silu_mul`); level `A` only.
    pub activations: Option<Vec<(String, TensorView<'a>)>>,
}

impl RowEvidence<'_> {
    /// Hashes the tensors.
    ///
    /// # Errors
    /// [`Error::TensorShape`] when a tensor does not fill its shape.
    pub fn components(&self) -> Result<RowComponents, Error> {
        let list = |tensors: &[TensorView<'_>]| -> Result<Digest, Error> {
            Ok(list_digest(&tensors.iter().map(TensorView::digest).collect::<Result<Vec<_>, _>>()?))
        };
        let activations = self.activations.as_ref().map(|named| {
            let digests = named.iter().map(|(name, tensor)| Ok((name.as_str(), tensor.digest()?)));
            digests.collect::<Result<Vec<_>, Error>>().map(|named| named_list_digest(&named))
        });
        Ok(RowComponents {
            logits: self.logits.as_ref().map(TensorView::digest).transpose()?,
            k: list(&self.k)?,
            v: list(&self.v)?,
            boundaries: list(&self.boundaries)?,
            activations: activations.transpose()?,
        })
    }
}

/// Digest of an ordered list of digests: `H("lastbit/list/v1" || 0 || count u32 || digests)`.
#[must_use]
pub fn list_digest(digests: &[Digest]) -> Digest {
    let mut hash = Tagged::new("lastbit/list/v1");
    hash.u32(u32::try_from(digests.len()).unwrap_or(u32::MAX));
    for digest in digests {
        hash.digest(digest);
    }
    hash.finish()
}

/// Digest of an ordered list of named digests: `H("lastbit/named-list/v1" || 0 || count u32 || (name, digest) ...)`.
#[must_use]
pub fn named_list_digest(named: &[(&str, Digest)]) -> Digest {
    let mut hash = Tagged::new("lastbit/named-list/v1");
    hash.u32(u32::try_from(named.len()).unwrap_or(u32::MAX));
    for (name, digest) in named {
        hash.text(name).digest(digest);
    }
    hash.finish()
}

/// The leaf of one row.
///
/// Layout after the tag: flags `u8` (bit 0 chosen, bit 1 logits, bit 2 activations), request id (text), position
/// `u32`, token `u32`, chosen `u32` if flagged, then the component digests in order, absent ones left out.
#[must_use]
pub fn leaf(row: &RowId<'_>, components: &RowComponents) -> Digest {
    let mut hash = Tagged::new("lastbit/step-leaf/v1");
    let flags = u8::from(row.chosen.is_some())
        | u8::from(components.logits.is_some()) << 1
        | u8::from(components.activations.is_some()) << 2;
    hash.u8(flags).text(row.request).u32(row.position).u32(row.token);
    if let Some(chosen) = row.chosen {
        hash.u32(chosen);
    }
    if let Some(logits) = &components.logits {
        hash.digest(logits);
    }
    hash.digest(&components.k).digest(&components.v).digest(&components.boundaries);
    if let Some(activations) = &components.activations {
        hash.digest(activations);
    }
    hash.finish()
}

/// Digest of a step's schedule: tagged canonical JSON.
///
/// # Errors
/// [`Error::Canonical`] when a name in it is not NFC.
pub fn schedule_digest(schedule: &Schedule) -> Result<Digest, Error> {
    of_json("lastbit/schedule/v1", schedule)
}

/// Where the chain of a log begins: `H("lastbit/chain-genesis/v1" || 0 || origin text)`.
#[must_use]
pub fn genesis(origin: &str) -> Digest {
    Tagged::new("lastbit/chain-genesis/v1").text(origin).finish()
}

/// The chain value after a step.
#[must_use]
pub fn chain(before: &Digest, root: &Digest, schedule: &Digest) -> Digest {
    Tagged::new("lastbit/chain/v1").digest(before).digest(root).digest(schedule).finish()
}

/// Completes a step from its schedule and leaves: computes root and chain.
///
/// # Errors
/// [`Error::LeafCount`] when there is not exactly one leaf a row, or no row at all; [`Error::Canonical`].
pub fn seal(index: u64, schedule: Schedule, leaves: Vec<Digest>, before: &Digest) -> Result<Step, Error> {
    let rows = schedule.row_count();
    if leaves.is_empty() || rows != leaves.len() as u64 {
        return Err(Error::LeafCount { step: index, rows, leaves: leaves.len() });
    }
    let root = merkle::root(&leaves)?;
    let chain = chain(before, &root, &schedule_digest(&schedule)?);
    Ok(Step { index, schedule, leaves, root, chain, time: crate::Fact::Unspecified })
}
