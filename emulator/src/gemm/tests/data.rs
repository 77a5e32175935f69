//! Matrices that try the kernels where they could be wrong.

use crate::format::{Elem, Format};

/// What a product tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Exponents around one.
    Normal,
    /// Normal, a few elements 2^9 larger.
    Outliers,
    /// Uniform bit patterns, infinities and NaNs included.
    Bits,
    /// Neighbouring k cancel but for the last bits.
    Cancelling,
    /// Half of the elements zero, of either sign.
    Sparse,
    /// Whole rows and columns zero.
    ZeroRows,
    /// Subnormal operands beside large partners.
    Subnormal,
    /// Results around the largest finite number.
    Huge,
    /// Results around the smallest, below the window and at the exponent floor.
    Tiny,
    /// All significands nearly maximal, one sign, C of similar size: i32 overflows.
    Maximal,
    /// Terms one bit around the unit of truncation.
    Boundary,
    /// Alignments at either edge of the window.
    Edge,
    /// Zeros beside large partners, all true terms smaller.
    ZeroTimesLarge,
    /// Normal with a few infinities and NaNs.
    Special,
    /// Every run of four k has exponents of its own, so that blocks leave the window and return.
    Restless,
}

impl Kind {
    pub(super) const ALL: [Self; 15] = [
        Self::Normal,
        Self::Outliers,
        Self::Bits,
        Self::Cancelling,
        Self::Sparse,
        Self::ZeroRows,
        Self::Subnormal,
        Self::Huge,
        Self::Tiny,
        Self::Maximal,
        Self::Boundary,
        Self::Edge,
        Self::ZeroTimesLarge,
        Self::Special,
        Self::Restless,
    ];
}

/// splitmix64.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform in `low..=high`.
    pub(super) fn range(&mut self, low: i32, high: i32) -> i32 {
        low + (self.next() % (high - low + 1) as u64) as i32
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// A finite number of `format`: exponent clamped to what the format has, fraction from the low bits.
fn number(format: &Format, negative: bool, exponent: i32, fraction: u64) -> u32 {
    let magnitude = format.max_magnitude() >> format.fraction_bits;
    let field = (exponent + format.bias).clamp(1, magnitude as i32) as u64;
    let fraction = fraction & ((1 << format.fraction_bits) - 1);
    let bits = (field << format.fraction_bits | fraction).min(format.max_magnitude());
    let sign = u64::from(negative) << (format.exponent_bits + format.fraction_bits);
    ((sign | bits) << format.ignored_bits) as u32
}

fn sign_bit(format: &Format) -> u32 {
    1 << (format.width - 1)
}

/// An infinity or a NaN; where the format has neither, its largest number.
fn special(format: &Format, random: &mut Random) -> u32 {
    let largest = (format.max_magnitude() << format.ignored_bits) as u32;
    let first = largest.saturating_add(1 << format.ignored_bits);
    let sign = if random.one_in(2) { sign_bit(format) } else { 0 };
    // In TF32 a payload in the ignored bits alone is an infinity.
    let payload = if random.one_in(3) { 1 << random.range(0, format.fraction_bits as i32) } else { 0 };
    sign | (first & !sign_bit(format)) | payload & ((1 << (format.fraction_bits + format.ignored_bits)) - 1)
}

/// A, B and C of one product, row-major, B by columns.
pub(super) struct Data {
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub c: Vec<u32>,
}

impl Data {
    pub(super) fn new(kind: Kind, types: [Elem; 2], accumulator: Elem, [m, n, k]: [usize; 3], seed: u64) -> Self {
        let mut random = Random(seed << 8 | kind as u64);
        let center = match kind {
            Kind::Huge => random.range(55, 66),
            Kind::Tiny => random.range(-80, -50),
            Kind::Edge if random.one_in(2) => random.range(11, 14),
            Kind::Edge => random.range(-53, -49),
            Kind::ZeroTimesLarge => random.range(-20, -5),
            Kind::Boundary => -4,
            _ => 0,
        };
        let spread = match kind {
            Kind::Maximal => 0,
            Kind::Boundary => 14,
            _ => random.range(0, 4),
        };
        let places: Vec<i32> = (0..k.div_ceil(4)).map(|_| random.range(-58, 14)).collect();
        let [mut a, mut b] = [(0, m), (1, n)].map(|(side, rows)| {
            let format = types[side].format();
            let mut out = Vec::with_capacity(rows * k);
            for _ in 0..rows {
                let nothing = kind == Kind::ZeroRows && random.one_in(2);
                for i in 0..k {
                    let r = random.next();
                    let negative = match kind {
                        Kind::Cancelling => side == 0 && i % 2 == 1,
                        Kind::Maximal => side == 1 && seed % 2 == 1,
                        _ => r & 1 == 1,
                    };
                    let center = if kind == Kind::Restless { places[i / 4] } else { center };
                    let exponent = center + random.range(-spread, spread);
                    let mut bits = number(format, negative, exponent, r >> 8);
                    match kind {
                        Kind::Bits => bits = (r as u32) & (u32::MAX >> (32 - format.width)),
                        Kind::Outliers if random.one_in(40) => bits = number(format, negative, 9, r >> 8),
                        Kind::Sparse if r & 2 == 2 => bits &= sign_bit(format),
                        Kind::Subnormal if random.one_in(2) => {
                            let fraction = r >> 8 & ((1 << format.fraction_bits) - 1);
                            bits = bits & sign_bit(format) | (fraction << format.ignored_bits) as u32;
                        }
                        Kind::Subnormal => bits = number(format, negative, random.range(20, 126), r >> 8),
                        Kind::Edge if random.one_in(8) => bits &= sign_bit(format),
                        Kind::Maximal => bits = number(format, negative, 3, !(r & r >> 8 & 3)),
                        Kind::Boundary => bits = number(format, negative, exponent, 1 << (r >> 8 & 7)),
                        Kind::Special if random.one_in(200) => bits = special(format, &mut random),
                        _ => {}
                    }
                    if nothing {
                        bits &= sign_bit(format);
                    }
                    if kind == Kind::Cancelling && i % 2 == 1 {
                        // Equal magnitudes in pairs; the last bit of some differs.
                        let flip = u32::from(random.one_in(4)) << format.ignored_bits;
                        let before: u32 = out[out.len() - 1];
                        bits = before ^ flip ^ if side == 0 { sign_bit(format) } else { 0 };
                    }
                    out.push(bits);
                }
            }
            out
        });
        if kind == Kind::ZeroTimesLarge {
            // In every few k, B is large and meets zeros only.
            for i in (0..k).filter(|i| i % 5 == 2) {
                a.iter_mut().skip(i).step_by(k).for_each(|bits| *bits &= sign_bit(types[0].format()));
                let exponent = random.range(20, 110);
                b.iter_mut().skip(i).step_by(k).for_each(|bits| *bits = number(types[1].format(), false, exponent, 1));
            }
        }
        let c = Self::accumulators(kind, accumulator.format(), m * n, center, seed, &mut random);
        Self { a, b, c }
    }

    fn accumulators(
        kind: Kind,
        format: &Format,
        count: usize,
        center: i32,
        seed: u64,
        random: &mut Random,
    ) -> Vec<u32> {
        let half = format.width == 16;
        let of = |random: &mut Random| {
            let r = random.next();
            let exponent = 2 * center + random.range(-12, 12);
            match kind {
                Kind::Bits => r as u32 & (u32::MAX >> (32 - format.width)),
                Kind::Special if random.one_in(300) => special(format, random),
                Kind::Maximal => number(format, seed % 2 == 1, 6 + random.range(0, 2), !(r & 0xff)),
                Kind::ZeroRows | Kind::Sparse | Kind::Tiny | Kind::ZeroTimesLarge if r & 2 == 2 => {
                    (r as u32 & 1) << (format.width - 1)
                }
                Kind::Tiny if r & 4 == 4 => r as u32 & if half { 0x83ff } else { 0x80ff_ffff },
                Kind::Boundary => number(format, r & 1 == 1, random.range(0, 14), 1 << (r >> 8 & 31)),
                _ => number(format, r & 1 == 1, exponent, r >> 8),
            }
        };
        (0..count).map(|_| of(random)).collect()
    }
}
