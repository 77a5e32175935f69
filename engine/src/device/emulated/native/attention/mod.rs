//! [`AttentionSpec`]: scores and values by packed products, the softmax by warp functions.
//!
//! The rows of a query tile and the query heads that share a key/value head are the rows of one product. Every tile of keys and of values is
//! packed once, however many query tiles and launches read it.

mod chain;
mod plan;
mod softmax;
mod tiles;

use emulator::format::Elem;
use emulator::gemm;
use emulator::mma::{Instruction, M16N8K16, Types};
use emulator::profile::Profile;
use emulator::threads;

pub(super) use self::chain::ChainAttention;
use self::plan::{Outputs, Plan};
use self::softmax::Softmax;
pub(super) use self::tiles::KeptTiles;
use super::warp::Units;
use super::{Call, Declined, Native};
use crate::kernels::AttentionSpec;

/// One text of attention.
pub(super) struct Attention {
    spec: AttentionSpec,
    product: gemm::Gemm,
}

impl Attention {
    /// `None` where the profile's instruction has no packed product.
    pub fn new(spec: &AttentionSpec, profile: &Profile) -> Option<Self> {
        let instruction = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
        let product = gemm::Gemm::new(profile, &instruction).ok()?;
        let shared = spec.kv_heads > 0 && spec.q_heads.is_multiple_of(spec.kv_heads);
        shared.then(|| Self { spec: spec.clone(), product })
    }
}

impl Native for Attention {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let plan = Plan::new(&self.spec, call)?;
        let threads = call.options.threads;
        let kv_heads = self.spec.kv_heads as usize;
        let packed = call.packs.tiles.of(&self.spec, &plan, call.memory, threads).ok_or(Declined)?;

        let outputs = Outputs::new(&self.spec, &plan, call.memory)?;
        let units = Units::new(call.options.simd);
        let product = self.product.level(call.options.simd);
        let jobs = plan.query_tiles.iter().flat_map(|tile| {
            (0..plan.splits).flat_map(move |split| (0..self.spec.kv_heads).map(move |head| (tile, split, head)))
        });
        threads::share(threads, jobs, |(tile, split, kv_head)| {
            let q = plan.queries(&self.spec, tile, kv_head);
            let mut softmax = Softmax::new(&self.spec, units, product, tile, q);
            for kv_tile in plan.range(tile, split) {
                let index = plan.kv_tile(tile, kv_tile) * kv_heads + kv_head as usize;
                softmax.advance(kv_tile, &packed[index]);
            }
            softmax.store(&self.spec, &plan, outputs, split, kv_head);
        });
        Ok(())
    }
}
