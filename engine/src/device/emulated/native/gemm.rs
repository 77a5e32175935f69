//! [`GemmSpec`]: the packed product of the profile's tensor core, or of chains of fused multiply-adds.

use emulator::exec::WordsMut;
use emulator::format::Elem;
use emulator::gemm::{self, Chain, ChainRows, Rows};
use emulator::mma::{Instruction, M16N8K16, Types};
use emulator::profile::Profile;
use emulator::scalar::lanes::bf16_rn;

use super::{Call, Declined, Native, aligned, apart};
use crate::device::Arg;
use crate::kernels::{GemmOut, GemmSpec, PAD, Stream, Units};

/// Elements that are packed before another thread would have woken.
const WORTH_A_THREAD: usize = 1 << 15;

/// One text of a matrix product.
pub(super) struct Gemm {
    spec: GemmSpec,
    product: Product,
}

/// How products are summed.
enum Product {
    Tensor(gemm::Gemm),
    Chain,
}

impl Gemm {
    /// `None` where the profile's instruction has no packed product, and for slices of chains.
    pub fn new(spec: &GemmSpec, profile: &Profile) -> Option<Self> {
        let product = match (spec.units, spec.out) {
            (Units::Special, _) => {
                let instruction = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
                Product::Tensor(gemm::Gemm::new(profile, &instruction).ok()?)
            }
            (Units::Ieee, GemmOut::Partial | GemmOut::Stream) => return None,
            (Units::Ieee, _) => Product::Chain,
        };
        Some(Self { spec: spec.clone(), product })
    }
}

impl Native for Gemm {
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined> {
        let GemmSpec { n_pad, k_pad, out, .. } = self.spec;
        let (x, w, y, rows, splits) = match (out, call.args) {
            (
                GemmOut::Partial | GemmOut::Stream,
                &[Arg::Ptr(x), Arg::Ptr(w), Arg::Ptr(y), Arg::U32(rows), Arg::U32(splits)],
            ) if splits > 0 => (x, w, y, rows, splits),
            (GemmOut::Bf16 | GemmOut::F32, &[Arg::Ptr(x), Arg::Ptr(w), Arg::Ptr(y), Arg::U32(rows)]) => {
                (x, w, y, rows, 1)
            }
            _ => return Err(Declined),
        };
        if out == GemmOut::Stream && !Stream::new(n_pad, k_pad, splits).countable(splits) {
            return Err(Declined);
        }
        call.runs_on(self.spec.grid(rows, splits))?;
        // The kernel counts lines of `y` in 32 bits.
        let lines = rows.checked_mul(self.spec.parts(splits)).ok_or(Declined)?;
        let size = if out == GemmOut::Bf16 { 2 } else { 4 };
        let bytes = |rows: u32, columns: u32, size: u64| u64::from(rows) * u64::from(columns) * size;
        let (x, w) = ((x, bytes(rows, k_pad, 2)), (w, bytes(n_pad, k_pad, 2)));
        let y = (y, bytes(lines, n_pad, size));
        aligned(&[x, w, y])?;
        apart(y, &[x, w])?;

        let (m, n, k) = (rows as usize, n_pad as usize, k_pad as usize);
        let threads = call.options.threads;
        let x = call.memory.words(x.0, x.1).ok_or(Declined)?.halves();
        let w = call.packs.bf16(call.memory, w.0, n, k).ok_or(Declined)?;
        // All must be there before it counts as written.
        call.memory.words(y.0, y.1).ok_or(Declined)?;
        let view = || call.memory.words_mut(y.0, y.1).ok_or(Declined);
        let store = |y: WordsMut<'_>, at: gemm::At, values: &[u32]| {
            let element = (at.range * m + at.row) * n + at.column;
            if out == GemmOut::Bf16 { put_bf16(y, element, values) } else { y.put(element, values) }
        };
        match &self.product {
            Product::Tensor(product) => {
                let packers = if m * k < WORTH_A_THREAD { 1 } else { threads };
                let x = Rows::pack_on(packers, Elem::Bf16, m, k, &x).map_err(|_| Declined)?;
                let product = product.threads(threads).level(call.options.simd);
                let y = view()?;
                if out == GemmOut::Stream {
                    let pieces = stream(n_pad, k_pad, splits);
                    return product.pieces(&x, w, &pieces, |at, values| store(y, at, values)).map_err(|_| Declined);
                }
                let blocks = k_pad / PAD;
                let per = blocks.div_ceil(splits);
                let edge = |slice: u32| (slice.saturating_mul(per).min(blocks) * PAD) as usize;
                let slices: Vec<_> = (0..splits).map(|slice| edge(slice)..edge(slice + 1)).collect();
                product.ranges(&x, w, &slices, |at, values| store(y, at, values)).map_err(|_| Declined)
            }
            Product::Chain => {
                let x = ChainRows::pack(Elem::Bf16, m, k, &x).map_err(|_| Declined)?;
                let chain = Chain::new().threads(threads).level(call.options.simd);
                let y = view()?;
                chain.each(&x, w, |at, values| store(y, at, values)).map_err(|_| Declined)
            }
        }
    }
}

/// The segments of a stream.
fn stream(n_pad: u32, k_pad: u32, workers: u32) -> Vec<gemm::Piece> {
    let division = Stream::new(n_pad, k_pad, workers);
    let tiles = (0..n_pad).step_by(Stream::COLUMNS as usize);
    let pieces = tiles.flat_map(|first| {
        let columns = first as usize..(first + Stream::COLUMNS).min(n_pad) as usize;
        let cuts = division.cuts(first).into_iter().enumerate();
        cuts.map(move |(range, cut)| gemm::Piece {
            range,
            columns: columns.clone(),
            k: (cut.start * PAD) as usize..(cut.end * PAD) as usize,
        })
    });
    pieces.collect()
}

/// Stores values as bf16, nearest even, from element `at` on; both counts are even.
fn put_bf16(to: WordsMut<'_>, at: usize, values: &[u32]) {
    let mut words = [0; 8];
    for (word, pair) in words.iter_mut().zip(values.as_chunks::<2>().0) {
        *word = bf16_rn(pair[0]) | bf16_rn(pair[1]) << 16;
    }
    to.put(at / 2, &words[..values.len() / 2]);
}
