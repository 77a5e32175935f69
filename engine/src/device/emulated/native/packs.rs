//! Weights as matrix products want them, packed once.

use std::collections::HashMap;

use emulator::exec::Memory;
use emulator::format::Elem;
use emulator::gemm::Weights;

use super::attention::KeptTiles;

/// A matrix in device memory: bf16 `(n, k)`, row-major, from an address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    address: u64,
    n: usize,
    k: usize,
}

/// Packed copies of matrices in device memory. A pack is used only while its allocation has the version it had when it was packed: whatever
/// may have written there since, an upload, a kernel or native code, gave it another.
///
/// Memory: as much again as the matrices take on the device (2 bytes an element), from their first product on.
#[derive(Default)]
pub(in crate::device::emulated) struct Packs {
    known: HashMap<Place, Pack>,
    /// Keys and values of attention.
    pub(super) tiles: KeptTiles,
}

struct Pack {
    version: u64,
    weights: Weights,
}

impl Packs {
    /// The bf16 matrix `(n, k)` at `address`, packed; `None` if it does not lie in memory.
    pub fn bf16(&mut self, memory: &Memory, address: u64, n: usize, k: usize) -> Option<&Weights> {
        let version = memory.version(address)?;
        let place = Place { address, n, k };
        if self.known.get(&place).is_none_or(|pack| pack.version != version) {
            let words = memory.words(address, n as u64 * k as u64 * 2)?;
            let weights = Weights::pack(Elem::Bf16, n, k, &words.halves()).ok()?;
            self.known.insert(place, Pack { version, weights });
        }
        self.known.get(&place).map(|pack| &pack.weights)
    }

    /// Gives back the packs of allocations that are gone.
    pub fn forget_freed(&mut self, memory: &Memory) {
        self.known.retain(|place, _| memory.version(place.address).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(packs: &mut Packs, memory: &Memory, address: u64) -> bool {
        let before = packs.known.values().map(|p| p.version).max();
        packs.bf16(memory, address, 2, 4).unwrap();
        before != packs.known.values().map(|p| p.version).max()
    }

    #[test]
    fn a_pack_lasts_until_its_allocation_may_have_changed() {
        let mut memory = Memory::new();
        let mut packs = Packs::default();
        let (w, other) = (memory.alloc_zeroed(32).unwrap(), memory.alloc_zeroed(32).unwrap());
        memory.upload(w, &[1; 16]).unwrap();
        assert!(pack(&mut packs, &memory, w));
        assert!(!pack(&mut packs, &memory, w));
        memory.upload(other, &[2; 16]).unwrap();
        assert!(!pack(&mut packs, &memory, w), "another allocation was written");
        memory.upload(w + 30, &[3]).unwrap();
        assert!(pack(&mut packs, &memory, w), "an upload");
        memory.words_mut(w, 4).unwrap().set(0, 5);
        assert!(pack(&mut packs, &memory, w), "native code");
        assert!(packs.bf16(&memory, w + 2, 2, 8).is_none(), "not all of it is there");
        memory.free(w).unwrap();
        packs.forget_freed(&memory);
        assert!(packs.known.is_empty());
        assert!(packs.bf16(&memory, w, 2, 4).is_none());
    }
}
