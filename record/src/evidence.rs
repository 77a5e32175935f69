//! `*.evidence` files: tensors opened against the leaves of a record. Specified by `docs/spec/evidence-file.md`.
//!
//! The index comes first and names every tensor of a row by digest, so a leaf can be recomputed from the index alone. The
//! tensors that are opened follow; one that stays closed is just its digest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::commit::{self, EvidenceLevel, RowComponents, RowEvidence};
use crate::digest::Digest;
use crate::inference::Record;
use crate::tensor::{DType, TensorView, byte_len};
use crate::{Error, canonical, container};

/// What the `type` member of the index says.
pub const EVIDENCE_TYPE: &str = "evidence/v1";

/// Most bytes an index may have.
pub const MAX_INDEX_BYTES: usize = 1 << 26;

/// Tensors of some rows of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Digest of the record.
    pub record: Digest,
    /// Level of the leaves.
    pub level: EvidenceLevel,
    /// The rows, ascending by step and leaf.
    pub rows: Vec<OpenedRow>,
    tensors: BTreeMap<Digest, Tensor>,
}

/// Digests of all tensors of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenedRow {
    /// Index of the step, as the record gives it.
    pub step: u64,
    /// Index of the row's leaf within the step.
    pub leaf: u32,
    /// Logits; `null` when the step computed none for this row.
    pub logits: Option<Digest>,
    /// K column of each layer.
    pub k: Vec<Digest>,
    /// V column of each layer.
    pub v: Vec<Digest>,
    /// Residual stream at each boundary.
    pub boundaries: Vec<Digest>,
    /// Output of each operation, in execution order, by path; `null` below level `A`.
    pub activations: Option<Vec<(String, Digest)>>,
}

/// An owned tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Row-major shape.
    pub shape: Vec<u64>,
    /// Little-endian elements.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Borrows it.
    #[must_use]
    pub fn view(&self) -> TensorView<'_> {
        TensorView::bytes(self.dtype, &self.shape, &self.bytes)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    #[serde(rename = "type")]
    kind: String,
    record: Digest,
    level: EvidenceLevel,
    rows: Vec<OpenedRow>,
    tensors: Vec<Chunk>,
}

/// One tensor of the data part; they follow each other in the order of the index, without gaps.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunk {
    digest: Digest,
    dtype: DType,
    shape: Vec<u64>,
}

/// Why evidence does not open a record's leaves, or is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceRefusal {
    /// The file ends within its index or its tensors, or goes on after them.
    #[error("the file's {part} do not have the length the file states")]
    Length {
        /// `index` or `tensors`.
        part: &'static str,
    },
    /// A tensor's bytes do not have the digest the index states.
    #[error("tensor {0} has been altered")]
    TensorAltered(Digest),
    /// Tensors are not in ascending order of digest.
    #[error("tensors are not in ascending order, at {0}")]
    Order(Digest),
    /// The evidence is for another record, or states another level.
    #[error("the evidence is for another record or level")]
    OtherRecord,
    /// There is no such row.
    #[error("step {step} of the record has no leaf {leaf}")]
    NoSuchRow {
        /// Step index.
        step: u64,
        /// Leaf index.
        leaf: u32,
    },
    /// The tensor digests of a row do not give its leaf.
    #[error("the tensors of step {step}, leaf {leaf} are not those the record commits to")]
    LeafMismatch {
        /// Step index.
        step: u64,
        /// Leaf index.
        leaf: u32,
    },
}

impl OpenedRow {
    /// The component digests that enter the leaf.
    #[must_use]
    pub fn components(&self) -> RowComponents {
        let named = |list: &Vec<(String, Digest)>| {
            let list: Vec<_> = list.iter().map(|(name, digest)| (name.as_str(), *digest)).collect();
            commit::named_list_digest(&list)
        };
        RowComponents {
            logits: self.logits,
            k: commit::list_digest(&self.k),
            v: commit::list_digest(&self.v),
            boundaries: commit::list_digest(&self.boundaries),
            activations: self.activations.as_ref().map(named),
        }
    }

    /// Digest of the activation with this path.
    #[must_use]
    pub fn activation(&self, path: &str) -> Option<Digest> {
        self.activations.as_ref()?.iter().find(|(name, _)| name == path).map(|(_, digest)| *digest)
    }
}

impl Evidence {
    /// Evidence without rows yet.
    #[must_use]
    pub fn new(record: Digest, level: EvidenceLevel) -> Self {
        Self { record, level, rows: Vec::new(), tensors: BTreeMap::new() }
    }

    /// Adds all tensors of a row, in any order of rows. Equal tensors are stored once.
    ///
    /// # Errors
    /// [`Error::TensorShape`] when a tensor does not fill its shape.
    pub fn add_row(&mut self, step: u64, leaf: u32, row: &RowEvidence<'_>) -> Result<(), Error> {
        let mut open = |view: &TensorView<'_>| -> Result<Digest, Error> {
            let digest = view.digest()?;
            self.tensors.entry(digest).or_insert_with(|| Tensor {
                dtype: view.dtype,
                shape: view.shape.to_vec(),
                bytes: view.elements.to_le_bytes(),
            });
            Ok(digest)
        };
        let mut all = |views: &[TensorView<'_>]| views.iter().map(&mut open).collect::<Result<Vec<_>, _>>();
        let (k, v, boundaries) = (all(&row.k)?, all(&row.v)?, all(&row.boundaries)?);
        let logits = row.logits.as_ref().map(&mut open).transpose()?;
        let named = |list: &Vec<(String, TensorView<'_>)>| {
            list.iter().map(|(name, view)| Ok((name.clone(), open(view)?))).collect::<Result<Vec<_>, Error>>()
        };
        let activations = row.activations.as_ref().map(named).transpose()?;
        let row = OpenedRow { step, leaf, logits, k, v, boundaries, activations };
        let place = self.rows.partition_point(|other| (other.step, other.leaf) < (step, leaf));
        self.rows.insert(place, row);
        Ok(())
    }

    /// The row of a step, if it was opened.
    #[must_use]
    pub fn row(&self, step: u64, leaf: u32) -> Option<&OpenedRow> {
        self.rows.iter().find(|row| (row.step, row.leaf) == (step, leaf))
    }

    /// The tensor with this digest, if it was opened.
    #[must_use]
    pub fn tensor(&self, digest: &Digest) -> Option<&Tensor> {
        self.tensors.get(digest)
    }

    /// Leaves out the bytes of tensors that `keep` does not want; their digests stay.
    pub fn close(&mut self, keep: impl Fn(&Digest, &Tensor) -> bool) {
        self.tensors.retain(|digest, tensor| keep(digest, tensor));
    }

    /// The bytes of an `.evidence` file.
    ///
    /// # Errors
    /// [`Error::Canonical`].
    pub fn to_file(&self) -> Result<Vec<u8>, Error> {
        let chunk = |(digest, tensor): (&Digest, &Tensor)| Chunk {
            digest: *digest,
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
        };
        let index = canonical::to_bytes(&Index {
            kind: EVIDENCE_TYPE.to_owned(),
            record: self.record,
            level: self.level,
            rows: self.rows.clone(),
            tensors: self.tensors.iter().map(chunk).collect(),
        })?;
        let mut payload = (index.len() as u64).to_le_bytes().to_vec();
        payload.extend_from_slice(&index);
        for tensor in self.tensors.values() {
            payload.extend_from_slice(&tensor.bytes);
        }
        Ok(container::wrap(container::EVIDENCE, &payload))
    }

    /// Reads an `.evidence` file; every tensor has the digest the index states. Allocates no more than the file holds.
    ///
    /// # Errors
    /// [`Error::Container`], [`Error::UnknownType`], [`Error::Canonical`], [`Error::Evidence`].
    pub fn from_file(file: &[u8]) -> Result<Self, Error> {
        let length = |part| Error::Evidence(EvidenceRefusal::Length { part });
        let payload = container::unwrap(container::EVIDENCE, file)?;
        let (stated, rest) = payload.split_first_chunk::<8>().ok_or(length("index"))?;
        let stated = usize::try_from(u64::from_le_bytes(*stated)).map_err(|_| length("index"))?;
        let (index, mut data) = rest.split_at_checked(stated).ok_or(length("index"))?;
        let index: Index = canonical::read_versioned(index, MAX_INDEX_BYTES, &[("type", EVIDENCE_TYPE)])?;
        let mut tensors = BTreeMap::new();
        for chunk in index.tensors {
            let bytes = byte_len(chunk.dtype, &chunk.shape).and_then(|bytes| usize::try_from(bytes).ok());
            let (bytes, rest) = bytes.and_then(|bytes| data.split_at_checked(bytes)).ok_or(length("tensors"))?;
            data = rest;
            let tensor = Tensor { dtype: chunk.dtype, shape: chunk.shape, bytes: bytes.to_vec() };
            if tensor.view().digest()? != chunk.digest {
                return Err(EvidenceRefusal::TensorAltered(chunk.digest).into());
            }
            if tensors.last_key_value().is_some_and(|(last, _)| *last >= chunk.digest) {
                return Err(EvidenceRefusal::Order(chunk.digest).into());
            }
            tensors.insert(chunk.digest, tensor);
        }
        if !data.is_empty() {
            return Err(length("tensors"));
        }
        Ok(Self { record: index.record, level: index.level, rows: index.rows, tensors })
    }

    /// Checks that every row opens its leaf in `record`.
    ///
    /// # Errors
    /// [`Error::Evidence`] with the first row that does not; [`Error::Canonical`] if the record has no canonical form.
    pub fn check(&self, record: &Record) -> Result<(), Error> {
        if record.digest()? != self.record || record.evidence != self.level {
            return Err(EvidenceRefusal::OtherRecord.into());
        }
        for row in &self.rows {
            let (step, leaf) = (row.step, row.leaf);
            let missing = || Error::Evidence(EvidenceRefusal::NoSuchRow { step, leaf });
            let found = record.steps.iter().find(|found| found.index == step).ok_or_else(missing)?;
            let committed = found.leaves.get(leaf as usize).ok_or_else(missing)?;
            let located = found.schedule.each_row().nth(leaf as usize).ok_or_else(missing)?;
            let id = record.row_id(&located).ok_or_else(missing)?;
            let has_level = row.activations.is_some() == (self.level == EvidenceLevel::A);
            if !has_level || commit::leaf(&id, &row.components()) != *committed {
                return Err(EvidenceRefusal::LeafMismatch { step, leaf }.into());
            }
        }
        Ok(())
    }
}
