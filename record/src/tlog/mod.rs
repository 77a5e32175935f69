//! The log as strangers meet it: published in tiles, witnessed, proved, watched. Specified by `docs/spec/transparency-log.md`.
//!
//! The tree is the local log's own ([`crate::log`]); every format here is one of C2SP's, but for the proof of misbehaviour. What is
//! deliberately missing: a network. `witness` is the logic of a witness and its state on disk; whoever listens calls it.

mod cosignature;
mod misbehaviour;
mod proof;
mod publish;
mod witness;

pub use cosignature::{Cosignature, WitnessKey, cosign, cosignatures, merge};
pub use misbehaviour::{MAX_MISBEHAVIOUR_BYTES, Misbehaviour, Reading, compare};
pub use proof::{AddCheckpoint, InclusionProof, MAX_PROOF_BYTES};
pub use publish::{MAX_BUNDLE_BYTES, MAX_TILE_BYTES, PublishRefusal, Published, bundle_path, publish, tile_path};
pub use witness::{Witness, WitnessRefusal};
