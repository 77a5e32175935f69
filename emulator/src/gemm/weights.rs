//! B packed: panels of columns, k by k, with what the exact kernels must know of their exponents.

use super::element::{Element, Facts, Reader, container, field, min_field};
use super::error::operand_size;
use crate::Error;
use crate::format::Elem;

/// Sixteen words on a cache line of their own.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line(pub [u32; 16]);

impl Line {
    pub(super) const ZERO: Self = Self([0; 16]);
}

/// Columns of a panel.
pub(super) const PANEL: usize = 32;
/// Maxima are kept for each run of this many k: the shortest block of any generation.
pub(super) const RUN: usize = 4;
/// K is padded with zeros to a multiple of this, the longest instruction.
pub(super) const PAD: usize = 32;

/// How panels hold elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// One line a k: columns 0 to 15 in the low halves, 16 to 31 in the high halves.
    Bf16,
    /// The same, as f16, which holds every 8-bit and smaller type.
    F16,
    /// Two lines a k, as f32.
    F32,
}

/// The weights of a product, packed once and used many times: `N` columns of B, each `K` elements.
///
/// Shape: given as `(N, K)`, row-major, as the weight of a linear layer is. Size: 2 bytes an element of at most 16 bits, else 4; N is
/// padded to a multiple of 32 and K to one of 32, with zeros.
#[derive(Clone, Debug)]
pub struct Weights {
    pub(super) elem: Elem,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) k_pad: usize,
    pub(super) storage: Storage,
    /// `(panel, k, line)`.
    lines: Vec<Line>,
    /// The largest exponent field of each panel and run of k.
    maxima: Vec<u8>,
    facts: Vec<Facts>,
}

impl Weights {
    /// Packs `data`, `(n, k)` row-major.
    ///
    /// # Errors
    /// [`Error::GemmOperand`] if the data is not `n * k` long or its container is not that of `elem`.
    pub fn pack<T: Element>(elem: Elem, n: usize, k: usize, data: &[T]) -> Result<Self, Error> {
        operand_size("weights", elem, container(elem), T::WIDTH, n, k, data.len())?;
        let storage = match elem {
            Elem::Bf16 => Storage::Bf16,
            _ if elem.format().width <= 16 => Storage::F16,
            _ => Storage::F32,
        };
        let k_pad = k.next_multiple_of(PAD);
        let panels = n.div_ceil(PANEL);
        let per_k = if storage == Storage::F32 { 2 } else { 1 };
        let mut lines = vec![Line::ZERO; panels * k_pad * per_k];
        let mut maxima = vec![0; panels * k_pad / RUN];
        let mut facts = vec![Facts::NONE; panels];
        let (reader, smallest) = (Reader::new(elem), min_field(elem));
        for (column, row) in data.chunks_exact(k.max(1)).enumerate() {
            let (panel, lane, half) = (column / PANEL, column % 16, column / 16 % 2);
            for (i, element) in row.iter().enumerate() {
                let value = reader.value(element.bits());
                let field = field(value, smallest);
                facts[panel].add(field);
                let largest = &mut maxima[(panel * k_pad + i) / RUN];
                *largest = field.max(u32::from(*largest)) as u8;
                match storage {
                    Storage::F32 => lines[(panel * k_pad + i) * 2 + half].0[lane] = value,
                    _ => {
                        let word = if storage == Storage::Bf16 { value >> 16 } else { reader.half(element.bits()) };
                        lines[panel * k_pad + i].0[lane] |= word << (16 * half);
                    }
                }
            }
        }
        Ok(Self { elem, n, k, k_pad, storage, lines, maxima, facts })
    }

    /// Columns.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n
    }

    /// Elements of a column.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// The element type.
    #[must_use]
    pub fn elem(&self) -> Elem {
        self.elem
    }

    pub(super) fn panels(&self) -> usize {
        self.facts.len()
    }

    /// The lines of a panel from `k` on, or none for a panel beyond the last.
    #[inline(always)]
    pub(super) fn panel(&self, panel: usize, k: usize) -> &[Line] {
        let per_k = if self.storage == Storage::F32 { 2 } else { 1 };
        if panel < self.panels() {
            &self.lines[panel * self.k_pad * per_k..][k * per_k..self.k_pad * per_k]
        } else {
            &[]
        }
    }

    /// The largest field among `terms` k of a panel from `k` on.
    #[inline(always)]
    pub(super) fn max(&self, panel: usize, k: usize, terms: usize) -> u8 {
        largest(&self.maxima[(panel * self.k_pad + k) / RUN..], terms)
    }

    pub(super) fn facts(&self, panel: usize) -> Facts {
        self.facts[panel]
    }
}

/// The largest of the runs that make up `terms` k.
#[inline(always)]
pub(super) fn largest(maxima: &[u8], terms: usize) -> u8 {
    maxima[..terms / RUN].iter().fold(0, |a, &b| a.max(b))
}
