//! Sums across the lanes of a warp.

use super::add;

/// The distances of a shuffle tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offsets {
    /// 1, 2, 4, 8, 16.
    Ascending,
    /// 16, 8, 4, 2, 1.
    Descending,
}

impl Offsets {
    /// The distances below `width`, a power of two.
    pub(super) fn below(self, width: usize) -> impl Iterator<Item = usize> {
        let steps = width.ilog2();
        (0..steps).map(move |i| match self {
            Self::Ascending => 1 << i,
            Self::Descending => width >> (i + 1),
        })
    }
}

/// Lane 0 after `v += shfl_down(v, offset)` over `width` lanes (a power of two); lanes from `values.len()` on do not take
/// part: whoever would read one keeps its value.
///
/// # Panics
/// If there are no values, or more than `width`, or `width` is not a power of two.
#[must_use]
pub fn shuffle_down(values: &[u32], width: usize, offsets: Offsets) -> u32 {
    assert!(width.is_power_of_two() && (1..=width).contains(&values.len()), "1 to {width} lanes, a power of two");
    let mut lanes = values.to_vec();
    for offset in offsets.below(width) {
        // Ascending lanes read what the same step has not written yet: a lane reads above itself.
        for lane in 0..lanes.len().saturating_sub(offset) {
            lanes[lane] = add(lanes[lane], lanes[lane + offset]);
        }
    }
    lanes[0]
}

/// Any lane after `v += shfl_xor(v, offset)`; addition commutes, so all lanes agree.
///
/// # Panics
/// If the number of lanes is not a power of two.
#[must_use]
pub fn butterfly(values: &[u32], offsets: Offsets) -> u32 {
    assert!(values.len().is_power_of_two(), "a butterfly has 2^n lanes");
    let mut lanes = values.to_vec();
    for offset in offsets.below(values.len()) {
        lanes = (0..lanes.len()).map(|lane| add(lanes[lane], lanes[lane ^ offset])).collect();
    }
    lanes[0]
}

/// `(0 + 2) + (1 + 3)`: the four lanes that share a row of a matrix fragment.
#[must_use]
pub fn lane_quad(values: [u32; 4]) -> u32 {
    add(add(values[0], values[2]), add(values[1], values[3]))
}
