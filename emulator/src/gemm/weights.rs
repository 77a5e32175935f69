//! B packed: panels of columns, k by k, with what the exact kernels must know of their exponents.

use super::element::{Element, Facts, Reader, container, min_field};
use super::error::operand_size;
use super::tile::columns;
use crate::Error;
use crate::format::Elem;
use crate::simd::Level;
use crate::simd::lanes::{self, Kernel, Lanes};

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
        let mut out = Self::zeros(elem, n, k);
        let (reader, k_pad, per_k) = (Reader::new(elem), out.k_pad, out.storage.lines());
        for (column, row) in data.chunks_exact(k.max(1)).enumerate() {
            let (panel, lane, half) = (column / PANEL, column % 16, column / 16 % 2);
            let lines = &mut out.lines[panel * k_pad * per_k..][..k * per_k];
            match out.storage {
                Storage::F32 => {
                    for (lines, element) in lines.as_chunks_mut::<2>().0.iter_mut().zip(row) {
                        lines[half].0[lane] = reader.value(element.bits());
                    }
                }
                Storage::Bf16 => {
                    for (line, element) in lines.iter_mut().zip(row) {
                        line.0[lane] |= (element.bits() & 0xffff) << (16 * half);
                    }
                }
                Storage::F16 => {
                    for (line, element) in lines.iter_mut().zip(row) {
                        line.0[lane] |= reader.half(element.bits()) << (16 * half);
                    }
                }
            }
        }
        out.survey();
        Ok(out)
    }

    /// Packs `data`, `(k, n)` row-major: B itself, as the values of attention are.
    ///
    /// # Errors
    /// As [`Weights::pack`].
    pub fn pack_columns<T: Element>(elem: Elem, n: usize, k: usize, data: &[T]) -> Result<Self, Error> {
        operand_size("weights", elem, container(elem), T::WIDTH, n, k, data.len())?;
        let mut out = Self::zeros(elem, n, k);
        let (reader, k_pad, per_k) = (Reader::new(elem), out.k_pad, out.storage.lines());
        for (i, row) in data.chunks_exact(n.max(1)).enumerate() {
            for (group, elements) in row.chunks(16).enumerate() {
                let (panel, half) = (group / 2, group % 2);
                let lines = &mut out.lines[(panel * k_pad + i) * per_k..][..per_k];
                for (lane, element) in elements.iter().enumerate() {
                    match out.storage {
                        Storage::F32 => lines[half].0[lane] = reader.value(element.bits()),
                        Storage::Bf16 => lines[0].0[lane] |= (element.bits() & 0xffff) << (16 * half),
                        Storage::F16 => lines[0].0[lane] |= reader.half(element.bits()) << (16 * half),
                    }
                }
            }
        }
        out.survey();
        Ok(out)
    }

    /// Zeros, whose exponents nobody has looked at.
    fn zeros(elem: Elem, n: usize, k: usize) -> Self {
        let storage = match elem {
            Elem::Bf16 => Storage::Bf16,
            _ if elem.format().width <= 16 => Storage::F16,
            _ => Storage::F32,
        };
        let k_pad = k.next_multiple_of(PAD);
        let panels = n.div_ceil(PANEL);
        Self {
            elem,
            n,
            k,
            k_pad,
            storage,
            lines: vec![Line::ZERO; panels * k_pad * storage.lines()],
            maxima: vec![0; panels * k_pad / RUN],
            facts: vec![Facts::NONE; panels],
        }
    }

    /// Finds out about the exponents.
    fn survey(&mut self) {
        if self.k == 0 {
            return;
        }
        let (storage, smallest) = (self.storage, min_field(self.elem));
        let panels = self.lines.chunks_exact(self.k_pad * storage.lines());
        let panels = panels.zip(self.maxima.chunks_exact_mut(self.k_pad / RUN)).zip(&mut self.facts);
        for ((lines, maxima), facts) in panels {
            lanes::run::<Survey>(Level::detect(), &mut SurveyCall { lines, storage, smallest, maxima, facts });
        }
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
        let per_k = self.storage.lines();
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

/// Finds out about the exponents of a panel. Integer code: every level gives the same.
struct Survey;

struct SurveyCall<'a> {
    lines: &'a [Line],
    storage: Storage,
    /// The field that subnormals share.
    smallest: u32,
    maxima: &'a mut [u8],
    facts: &'a mut Facts,
}

impl Kernel for Survey {
    type Call<'a> = SurveyCall<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut SurveyCall<'_>) {
        let (none, smallest) = (s.splat(0), s.splat(call.smallest));
        let (mut least, mut most) = (s.splat(255), none);
        let (mut words, per_run) = ([0; 16], RUN * call.storage.lines());
        for (lines, maximum) in call.lines.chunks_exact(per_run).zip(call.maxima.iter_mut()) {
            let mut largest = none;
            for k in 0..RUN {
                for value in columns(s, call.storage, lines, k) {
                    let magnitude = s.shl::<1>(value);
                    let field = s.max(s.shr::<24>(magnitude), smallest);
                    largest = s.max(largest, s.where_nonzero(magnitude, field, none));
                    least = s.min_unsigned(least, s.where_nonzero(magnitude, field, s.splat(255)));
                }
            }
            most = s.max(most, largest);
            s.store(largest, &mut words);
            *maximum = words.iter().fold(0, |a, &b| b.max(a)) as u8;
        }
        s.store(most, &mut words);
        call.facts.max = words.iter().fold(0, |a, &b| b.max(a)) as u8;
        s.store(least, &mut words);
        call.facts.min = words.iter().fold(255, |a, &b| b.min(a)) as u8;
    }
}

impl Storage {
    /// Lines of one k of a panel.
    #[inline(always)]
    fn lines(self) -> usize {
        if self == Storage::F32 { 2 } else { 1 }
    }
}
