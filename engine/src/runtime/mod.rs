//! The engine: a model on a device, run step by step.

mod buffers;
mod collect;
mod forward;
mod kernels;
mod layout;

use std::ops::Range;
use std::sync::Arc;

pub use kernels::{KernelRef, Launches, OpChoice};

use self::buffers::{Resident, ScratchPool, cache_bytes};
use self::kernels::KernelSet;
use self::layout::{Layout, Padding};
use crate::device::{Buffer, Device, DeviceInfo};
use crate::error::{Error, Result};
use crate::gated::Setup;
use crate::kernels::{KvType, PAGE};
use crate::kv::{KvTables, Slot};
use crate::model::Model;
use crate::parallel::Division;
use crate::policy::{self, Dispatch, Mode, Shape};
use crate::step::{Group, Observe, StepOutput, StepPlan};

/// Sizes of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in flight.
    pub slots: u32,
    /// Pages of the KV cache, of 16 positions each.
    pub pages: u32,
    /// Rows of one step.
    pub max_rows: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { slots: 64, pages: 512, max_rows: 2048 }
    }
}

/// What decides bits of an engine besides its mode, its model and its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Simulated tensor-parallel ranks that every layer is divided over: see [`crate::parallel`].
    pub ranks: u32,
    /// Element type of the K and V caches.
    pub kv: KvType,
}

impl Default for Build {
    fn default() -> Self {
        Self { ranks: 1, kv: KvType::Bf16 }
    }
}

/// A model on a device.
pub struct Engine {
    model: Arc<Model>,
    device: Box<dyn Device>,
    mode: Mode,
    limits: Limits,
    division: Division,
    kv_type: KvType,
    kernels: Arc<KernelSet>,
    resident: Resident,
    scratch: ScratchPool,
    kv: KvTables,
    gate: Option<Setup>,
}

impl Engine {
    /// Registers the kernels, uploads the weights and sets up the cache.
    ///
    /// # Errors
    /// [`Error::Plan`] for a limit of zero, otherwise what the device refuses.
    pub fn new(model: Arc<Model>, device: Box<dyn Device>, mode: Mode, limits: Limits) -> Result<Self> {
        Self::built(model, device, mode, limits, Build::default())
    }

    /// The same, with every layer divided over `ranks` simulated tensor-parallel ranks: see [`crate::parallel`].
    ///
    /// # Errors
    /// Those of [`Engine::built`].
    pub fn parallel(
        model: Arc<Model>,
        device: Box<dyn Device>,
        mode: Mode,
        limits: Limits,
        ranks: u32,
    ) -> Result<Self> {
        Self::built(model, device, mode, limits, Build { ranks, ..Build::default() })
    }

    /// The same, built otherwise than usual.
    ///
    /// # Errors
    /// Those of [`Engine::new`], and [`Error::Plan`] for a model that cannot be divided so.
    pub fn built(
        model: Arc<Model>,
        mut device: Box<dyn Device>,
        mode: Mode,
        limits: Limits,
        build: Build,
    ) -> Result<Self> {
        let Build { ranks, kv: kv_type } = build;
        if limits.slots == 0 || limits.pages == 0 || limits.max_rows == 0 {
            return Err(Error::Plan { detail: "an engine needs at least one slot, one page and one row".into() });
        }
        let division = Division::new(&model.config, ranks)?;
        let kernels = Arc::new(KernelSet::new(&division, mode, kv_type, device.as_mut())?);
        // One more page than requests have, for the padding of verifications.
        let pages = limits.pages.saturating_add(u32::from(mode == Mode::Gated));
        let resident = Resident::new(&model, &division, pages, kv_type, device.as_mut())?;
        let kv = KvTables::new(limits.pages, limits.slots, model.config.max_positions);
        let scratch = ScratchPool::default();
        Ok(Self { model, device, mode, limits, division, kv_type, kernels, resident, scratch, kv, gate: None })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The mode, hence the dispatch policy.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How its layers are divided over tensor-parallel ranks.
    pub fn division(&self) -> &Division {
        &self.division
    }

    /// Element type of its K and V caches.
    pub fn kv_type(&self) -> KvType {
        self.kv_type
    }

    /// How a gated engine decides, once it was told.
    pub fn gate(&self) -> Option<&Setup> {
        self.gate.as_ref()
    }

    pub(crate) fn set_gate(&mut self, gate: Setup) {
        self.gate = Some(gate);
    }

    /// The limits it was built with.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What it runs on.
    pub fn device_info(&self) -> DeviceInfo {
        self.device.info()
    }

    /// Which kernels a dispatch means.
    pub fn launches(&self) -> Launches {
        Launches::new(self.kernels.clone())
    }

    /// The policy's choices for a step of this shape.
    pub fn dispatch(&self, shape: Shape) -> Dispatch {
        policy::dispatch(self.mode, &self.division.shard, shape)
    }

    /// A plan for these groups by the engine's own policy.
    pub fn plan(&self, groups: Vec<Group>, observe: Observe) -> StepPlan {
        let dispatch = self.dispatch(StepPlan::shape(&groups));
        StepPlan { groups, dispatch, observe }
    }

    /// Takes a slot for a request.
    ///
    /// # Errors
    /// [`Error::CacheFull`].
    pub fn open(&mut self) -> Result<Slot> {
        self.kv.open()
    }

    /// Ends a request and frees its pages.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open.
    pub fn close(&mut self, slot: Slot) -> Result<()> {
        self.kv.close(slot)
    }

    /// Forgets a request's positions from `len` on.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open or holds fewer positions.
    pub fn truncate(&mut self, slot: Slot, len: u32) -> Result<()> {
        self.kv.truncate(slot, len)
    }

    /// Positions that a request's slot holds.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open.
    pub fn positions(&self, slot: Slot) -> Result<u32> {
        self.kv.len(slot)
    }

    /// Runs one forward pass exactly as planned. When it fails, the cache holds what it held before.
    ///
    /// # Errors
    /// [`Error::Plan`] and [`Error::Dispatch`] for a plan that cannot be run, [`Error::CacheFull`], [`Error::Device`].
    pub fn step(&mut self, plan: &StepPlan) -> Result<StepOutput> {
        plan.check(&self.kv, self.model.config.vocab_size, self.limits.max_rows)?;
        self.kernels.check(&plan.dispatch)?;
        let out = self.reserve(&plan.groups).and_then(|layout| self.run(layout, plan));
        if out.is_err() {
            for group in &plan.groups {
                // Truncating to what was held cannot fail for a slot that was checked above.
                let _ = self.kv.truncate(group.slot, group.start);
            }
        }
        out
    }

    /// Computes positions that requests hold again, each over the columns before it, and overwrites their columns. Rows are filled up to `pad_to`, with
    /// at most [`PAGE`] more; padding changes no bit of a row and is not returned. A gated engine only.
    ///
    /// # Errors
    /// As [`Engine::step`]; when it fails, the columns of these positions are lost.
    pub fn again(&mut self, plan: &StepPlan, pad_to: u32) -> Result<StepOutput> {
        let refuse = |detail: String| Err(Error::Plan { detail });
        let rows = StepPlan::shape(&plan.groups).rows;
        if self.mode != Mode::Gated {
            return refuse("only a gated engine computes positions again".into());
        }
        if pad_to.checked_sub(rows).is_none_or(|padding| padding > PAGE) {
            return refuse(format!("{rows} rows padded to {pad_to}; at most {PAGE} can be padding"));
        }
        plan.check_again(&self.kv, self.model.config.vocab_size, self.limits.max_rows.max(PAGE))?;
        self.kernels.check(&plan.dispatch)?;
        let padding = Padding { rows: pad_to - rows, page: self.limits.pages };
        let layout = Layout::new(&plan.groups, &self.kv, padding)?;
        Ok(self.run(layout, plan)?.without_padding(rows as usize))
    }

    /// The cache's tables.
    pub(crate) fn kv(&self) -> &KvTables {
        &self.kv
    }

    /// The cache's tables, for whoever schedules.
    pub(crate) fn kv_mut(&mut self) -> &mut KvTables {
        &mut self.kv
    }

    /// Copies pages `range` of a slot (counted from its first position) to the host, as [`Engine::restore`] takes them.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open or has fewer pages, [`Error::Device`].
    pub fn save(&mut self, slot: Slot, range: Range<u32>) -> Result<Vec<u8>> {
        let pages = self.pages_of(slot, range)?;
        self.save_pages(&pages)
    }

    /// Overwrites pages of a slot, from number `first` on, with what [`Engine::save`] saved.
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open, has fewer pages, or the bytes are no whole pages of this model; [`Error::Device`].
    pub fn restore(&mut self, slot: Slot, first: u32, bytes: &[u8]) -> Result<()> {
        let one = self.caches().count() as u64 * cache_bytes(&self.division.shard, self.kv_type, 1);
        let pages = self.pages_of(slot, first..first.saturating_add((bytes.len() as u64 / one) as u32))?;
        self.load_pages(&pages, bytes)
    }

    /// Makes room for a request's first `len` positions, whose columns the caller will [`Engine::restore`].
    ///
    /// # Errors
    /// [`Error::Plan`] if the slot is not open, [`Error::CacheFull`].
    pub fn extend(&mut self, slot: Slot, len: u32) -> Result<()> {
        self.kv.extend(slot, len)
    }

    fn pages_of(&self, slot: Slot, range: Range<u32>) -> Result<Vec<u32>> {
        let pages = self.kv.pages(slot)?;
        let found = pages.get(range.start as usize..range.end as usize);
        found.map(<[u32]>::to_vec).ok_or_else(|| Error::Plan {
            detail: format!("slot {} has {} pages, not {}..{}", slot.0, pages.len(), range.start, range.end),
        })
    }

    /// Copies pages of every layer to the host: for each layer and rank the K pages in the order given, then the V pages.
    pub(crate) fn save_pages(&mut self, pages: &[u32]) -> Result<Vec<u8>> {
        let page = cache_bytes(&self.division.shard, self.kv_type, 1);
        let mut bytes = vec![0; self.caches().count() * pages.len() * page as usize];
        let places = self.page_addresses(pages, page);
        for (address, part) in places.into_iter().zip(bytes.chunks_exact_mut(page as usize)) {
            self.device.download(address, part)?;
        }
        Ok(bytes)
    }

    /// Copies back what [`Engine::save_pages`] saved, to as many pages.
    pub(crate) fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<()> {
        let page = cache_bytes(&self.division.shard, self.kv_type, 1);
        let places = self.page_addresses(pages, page);
        if bytes.len() as u64 != places.len() as u64 * page {
            let detail = format!("{} saved bytes do not fill {} pages", bytes.len(), pages.len());
            return Err(Error::Plan { detail });
        }
        for (address, part) in places.into_iter().zip(bytes.chunks_exact(page as usize)) {
            self.device.upload(address, part)?;
        }
        Ok(())
    }

    fn page_addresses(&self, pages: &[u32], page: u64) -> Vec<u64> {
        self.caches().flat_map(|c| pages.iter().map(move |p| c.address + u64::from(*p) * page)).collect()
    }

    /// Every cache, by layer, rank, and K before V.
    pub(crate) fn caches(&self) -> impl Iterator<Item = Buffer> + '_ {
        self.resident.layers.iter().flat_map(|l| &l.ranks).flat_map(|r| r.caches)
    }

    fn reserve(&mut self, groups: &[Group]) -> Result<Layout> {
        for group in groups {
            self.kv.extend(group.slot, group.start + group.tokens.len() as u32)?;
        }
        Layout::new(groups, &self.kv, Padding { rows: 0, page: self.limits.pages })
    }
}

/// Pages for `requests` requests of up to `positions` positions each.
pub fn pages_for(requests: u32, positions: u32) -> u32 {
    requests * positions.div_ceil(PAGE)
}
