//! A packed: tiles of rows, k by k, as f32 values beside exponents.

use super::element::{Element, Facts, RESCALE, Reader, container, field, min_field, small};
use super::error::operand_size;
use super::weights::{PAD, RUN, largest};
use crate::Error;
use crate::format::Elem;
use crate::threads;
use std::sync::OnceLock;

/// Rows of a tile where there are many.
pub(super) const TALL: usize = 8;
/// The most rows that are worth the kernel that reads weights as they are stored.
const FEW: usize = 12;
/// Rows of a tile there.
const LOW: usize = 4;

/// The k that is `at`th in the order of the steps of an instruction whose two steps take pairs of 32 in turn.
#[inline(always)]
pub(super) fn interleaved(at: usize) -> usize {
    at & !31 | (at & 14) << 1 | at >> 3 & 2 | at & 1
}

/// The rows of a product, packed for it: `M` rows of A, each `K` elements.
///
/// Shape: given as `(M, K)`, row-major. Size: 8 bytes an element.
#[derive(Clone, Debug)]
pub struct Rows {
    pub(super) elem: Elem,
    pub(super) m: usize,
    pub(super) k: usize,
    k_pad: usize,
    /// Rows of a tile: [`TALL`], or 1, 2 or [`LOW`] where the exponents are pairs of 16 bits.
    pub(super) height: usize,
    /// f32 bits, times `2^-RESCALE` where the type is small, `(tile, k, row)`.
    values: Vec<u32>,
    /// `(tile, k, row)`: four times the byte `max(field - 63, 0)`, or twice the word `field << 7`.
    exponents: Vec<u32>,
    /// The largest exponent field, by tile and run of k.
    maxima: Vec<u8>,
    /// The largest sum of significands of a row, in sixteenths, rounded up, by tile and run of k.
    sums: Vec<u8>,
    facts: Vec<Facts>,
    /// The same rows as [`Rows::arranged`], by whether elements are widened to f16, once a product has asked for them.
    other: [OnceLock<Box<Rows>>; 2],
}

impl Rows {
    /// Packs `data`, `(m, k)` row-major.
    ///
    /// # Errors
    /// [`Error::GemmOperand`] if the data is not `m * k` long or its container is not that of `elem`.
    pub fn pack<T: Element>(elem: Elem, m: usize, k: usize, data: &[T]) -> Result<Self, Error> {
        Self::pack_on(1, elem, m, k, data)
    }

    /// The same on so many threads.
    ///
    /// # Errors
    /// As [`Rows::pack`].
    pub fn pack_on<T: Element>(threads: usize, elem: Elem, m: usize, k: usize, data: &[T]) -> Result<Self, Error> {
        operand_size("rows", elem, container(elem), T::WIDTH, m, k, data.len())?;
        let few = m <= FEW && elem.format().width <= 16;
        let height = if few { m.next_power_of_two().min(LOW) } else { TALL };
        let k_pad = k.next_multiple_of(PAD);
        let tiles = m.div_ceil(height);
        let mut out = Self {
            elem,
            m,
            k,
            k_pad,
            height,
            values: vec![0; tiles * height * k_pad],
            exponents: vec![0; tiles * height * k_pad],
            maxima: vec![0; tiles * k_pad / RUN],
            sums: vec![0; tiles * k_pad / RUN],
            facts: vec![Facts::NONE; tiles],
            other: Default::default(),
        };
        let reader = Reader::new(elem);
        match elem {
            // The usual type, without asking for each element which it is.
            Elem::Bf16 => out.fill(threads, data, |bits| bits << 16),
            _ => out.fill(threads, data, |bits| reader.value(bits)),
        }
        Ok(out)
    }

    fn fill<T: Element>(&mut self, threads: usize, data: &[T], value: impl Fn(u32) -> u32 + Sync) {
        let (height, k, runs) = (self.height, self.k, self.k_pad / RUN);
        let (few, smallest) = (self.few(), min_field(self.elem));
        // A power of two, and the product is a normal number: exact. One keeps every pattern but the payloads of NaNs.
        let factor = f32::from_bits((127 - if small(self.elem) { RESCALE } else { 0 }) << 23);
        if k == 0 {
            return;
        }
        let words = (height * self.k_pad).max(1);
        let values = self.values.chunks_mut(words).zip(self.exponents.chunks_mut(words));
        let bytes = self.maxima.chunks_mut(runs).zip(self.sums.chunks_mut(runs));
        let tiles = values.zip(bytes).zip(&mut self.facts).zip(data.chunks(height * k));
        threads::share(threads, tiles, |(((words, bytes), facts), data)| {
            let ((values, exponents), (maxima, sums)) = (words, bytes);
            for (lane, elements) in data.chunks_exact(k).enumerate() {
                for (run, elements) in elements.chunks(RUN).enumerate() {
                    let (mut sum, mut largest) = (0, 0);
                    for (i, element) in elements.iter().enumerate() {
                        let value = value(element.bits());
                        let field = field(value, smallest);
                        let at = (run * RUN + i) * height + lane;
                        values[at] = (f32::from_bits(value) * factor).to_bits();
                        exponents[at] =
                            if few { (field << 7) * 0x0001_0001 } else { field.saturating_sub(63) * 0x0101_0101 };
                        facts.add(field);
                        largest = largest.max(field);
                        // At most this many units of 2^-23; a subnormal of a narrow type has less.
                        sum += if field == 0 { 0 } else { value & 0x007f_ffff | 0x0080_0000 };
                    }
                    maxima[run] = maxima[run].max(largest as u8);
                    sums[run] = sums[run].max(sum.div_ceil(1 << 19) as u8);
                }
            }
        });
    }

    /// The same rows for the kernel of many, if they are not; and, where the instruction widens its elements to f16 first and its two
    /// steps take pairs of k in turn, with the exponents that f16 has and in the order of the steps.
    pub(super) fn arranged(&self, halves: bool) -> &Self {
        self.other[usize::from(halves)].get_or_init(|| Box::new(self.arrange(halves)))
    }

    fn arrange(&self, halves: bool) -> Self {
        let k_pad = self.k_pad;
        let tiles = self.m.div_ceil(TALL);
        let mut out = Self {
            height: TALL,
            values: vec![0; tiles * TALL * k_pad],
            exponents: vec![0; tiles * TALL * k_pad],
            maxima: vec![0; tiles * k_pad / RUN],
            sums: vec![0; tiles * k_pad / RUN],
            facts: vec![Facts::NONE; tiles],
            other: Default::default(),
            ..*self
        };
        let rescale = if small(self.elem) { RESCALE } else { 0 };
        let smallest = min_field(if halves { Elem::F16 } else { self.elem }) - rescale;
        for (row, tile) in (0..self.m).map(|row| (row, row / TALL)) {
            for at in 0..k_pad {
                let k = if halves { interleaved(at) } else { at };
                let value = self.values[((row / self.height) * k_pad + k) * self.height + row % self.height];
                let field = match field(value, smallest) {
                    field @ (0 | 255) => field,
                    field => field + rescale,
                };
                let to = (tile * k_pad + at) * TALL + row % TALL;
                out.values[to] = value;
                out.exponents[to] = field.saturating_sub(63) * 0x0101_0101;
                if k < self.k {
                    out.facts[tile].add(field);
                }
                let run = tile * k_pad / RUN + at / RUN;
                out.maxima[run] = out.maxima[run].max(field as u8);
            }
            for run in 0..k_pad / RUN {
                let significand = |at: usize| match out.values[(tile * k_pad + run * RUN + at) * TALL + row % TALL] {
                    value if value << 1 == 0 => 0,
                    value => value & 0x007f_ffff | 0x0080_0000,
                };
                let sum: u32 = (0..RUN).map(significand).sum();
                let largest = &mut out.sums[tile * k_pad / RUN + run];
                *largest = (*largest).max(sum.div_ceil(1 << 19) as u8);
            }
        }
        out
    }

    /// Rows.
    #[must_use]
    pub fn m(&self) -> usize {
        self.m
    }

    /// Elements of a row.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    pub(super) fn tiles(&self) -> usize {
        self.facts.len()
    }

    /// Whether the exponents are those of the few-rows kernel.
    pub(super) fn few(&self) -> bool {
        self.height != TALL
    }

    /// Rows of `tile` that are not padding.
    #[inline(always)]
    pub(super) fn valid(&self, tile: usize) -> usize {
        (self.m - tile * self.height).min(self.height)
    }

    /// Values and exponents of `count` k of a tile from `k` on, `(k, row)`.
    #[inline(always)]
    pub(super) fn tile<const H: usize>(&self, tile: usize, k: usize, count: usize) -> (&[[u32; H]], &[[u32; H]]) {
        debug_assert_eq!(H, self.height);
        let (values, _) = self.values.as_chunks::<H>();
        let (exponents, _) = self.exponents.as_chunks::<H>();
        let from = tile * self.k_pad + k;
        (&values[from..from + count], &exponents[from..from + count])
    }

    /// The largest field among `terms` k of a tile from `k` on.
    #[inline(always)]
    pub(super) fn max(&self, tile: usize, k: usize, terms: usize) -> u8 {
        largest(&self.maxima[(tile * self.k_pad + k) / RUN..], terms)
    }

    /// At least the sum of the significands, in sixteenths, of any row among `terms` k of a tile from `k` on.
    #[inline(always)]
    pub(super) fn significands(&self, tile: usize, k: usize, terms: usize) -> u32 {
        self.sums[(tile * self.k_pad + k) / RUN..][..terms / RUN].iter().map(|&sum| u32::from(sum)).sum()
    }

    pub(super) fn facts(&self, tile: usize) -> Facts {
        self.facts[tile]
    }
}
