//! Tiles that try the kernel where it could be wrong.

use crate::format::{Elem, Format, Specials};
use crate::mma::layout::{LANES, Layout, Register};

/// What a tile tries.
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
    /// Whole rows and columns zero, with C zero or not.
    Zero,
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
    /// `E` at either edge of the window.
    Edge,
    /// Zeros beside the largest partners, all true terms tiny.
    ZeroTimesLarge,
    /// Normal with a few infinities and NaNs.
    Special,
}

impl Kind {
    pub(super) const ALL: [Self; 14] = [
        Self::Normal,
        Self::Outliers,
        Self::Bits,
        Self::Cancelling,
        Self::Sparse,
        Self::Zero,
        Self::Subnormal,
        Self::Huge,
        Self::Tiny,
        Self::Maximal,
        Self::Boundary,
        Self::Edge,
        Self::ZeroTimesLarge,
        Self::Special,
    ];
}

/// Registers of A, B and C.
pub(super) struct Tile {
    a: Vec<Register>,
    b: Vec<Register>,
    c: Vec<Register>,
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform in `low..=high`.
    fn range(&mut self, low: i32, high: i32) -> i32 {
        low + (self.next() % (high - low + 1) as u64) as i32
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// A finite number of `format`: exponent clamped to what the format has, fraction in its top bits.
fn number(format: &Format, negative: bool, exponent: i32, fraction: u64) -> u32 {
    let largest = (1 << format.exponent_bits) - 2 - format.bias;
    let field = (exponent.clamp(1 - format.bias, largest) + format.bias) as u64;
    let fraction = fraction & ((1 << format.fraction_bits) - 1);
    let sign = u64::from(negative) << (format.exponent_bits + format.fraction_bits);
    ((sign | field << format.fraction_bits | fraction) << format.ignored_bits) as u32
}

fn special(format: &Format, random: &mut Random) -> u32 {
    if format.specials == Specials::AllOnesNan {
        return (random.next() as u32 & 0x80) | 0x7f;
    }
    let infinity = ((1_u64 << format.exponent_bits) - 1) << (format.fraction_bits + format.ignored_bits);
    let sign = u64::from(random.one_in(2)) << (format.width - 1);
    // In TF32 a payload in the ignored bits alone is an infinity.
    let payload = if random.one_in(3) { 1 << random.range(0, format.fraction_bits as i32) } else { 0 };
    (sign | infinity | payload) as u32
}

impl Tile {
    pub(super) fn new(layout: &Layout, kind: Kind, seed: u64) -> Self {
        let (m, n, k) = (layout.shape.m as usize, layout.shape.n as usize, layout.shape.k as usize);
        let mut random = Random(seed << 8 | kind as u64);
        let formats = [layout.types.a.format(), layout.types.b.format()];
        let cd = layout.types.c.format();
        let f16 = layout.types.a.format().exponent_bits <= 5;
        let mut a = vec![vec![0; k]; m];
        let mut b = vec![vec![0; k]; n];
        let mut c = vec![vec![0; n]; m];
        // Where the products of this tile sit, for kinds that have a place.
        let center = match kind {
            Kind::Huge => random.range(55, 66),
            Kind::Tiny => random.range(-80, -50),
            Kind::Edge if random.one_in(2) => random.range(11, 14),
            Kind::Edge => random.range(-53, -49),
            Kind::ZeroTimesLarge => random.range(-70, -30),
            Kind::Boundary => -4,
            _ => 0,
        };
        let spread = match kind {
            Kind::Maximal => 0,
            Kind::Boundary => 14,
            _ => random.range(0, 4),
        };
        for (side, columns) in [(0, &mut a), (1, &mut b)] {
            let ab = formats[side];
            for vector in columns.iter_mut() {
                let whole_zero = kind == Kind::Zero && random.one_in(2);
                for (i, element) in vector.iter_mut().enumerate() {
                    let r = random.next();
                    let negative = match kind {
                        Kind::Cancelling => side == 0 && i % 2 == 1,
                        Kind::Maximal => side == 1 && seed % 2 == 1,
                        _ => r & 1 == 1,
                    };
                    let exponent = center + random.range(-spread, spread);
                    let mut bits = number(ab, negative, exponent, r >> 8);
                    match kind {
                        Kind::Bits => bits = r as u32,
                        Kind::Outliers if random.one_in(40) => bits = number(ab, negative, 9, r >> 8),
                        Kind::Sparse if r & 2 == 2 => bits = number(ab, negative, -1000, 0) & sign_bit(ab),
                        Kind::Subnormal if random.one_in(2) => {
                            bits = number(ab, negative, -1000, r >> 8) & !exponent_bits(ab)
                        }
                        Kind::Subnormal => {
                            bits = number(ab, negative, if f16 { 14 } else { random.range(20, 126) }, r >> 8)
                        }
                        Kind::Edge if random.one_in(8) => bits &= sign_bit(ab),
                        Kind::Maximal => bits = number(ab, negative, 3, !(r & r >> 8 & 3)),
                        Kind::Boundary => bits = number(ab, negative, exponent, 1 << (r >> 8 & 7)),
                        Kind::ZeroTimesLarge if side == 0 && random.one_in(3) => bits = 0,
                        Kind::ZeroTimesLarge if side == 1 && random.one_in(3) => {
                            bits = number(ab, negative, 127, r >> 8);
                        }
                        Kind::Special if random.one_in(30) => bits = special(ab, &mut random),
                        // Times zero, an infinity does not lift the alignment out of the window.
                        Kind::Special if side == 1 && random.one_in(2) => bits &= sign_bit(ab),
                        _ => {}
                    }
                    *element = if whole_zero { bits & sign_bit(ab) } else { bits };
                }
                if kind == Kind::Cancelling {
                    for i in (1..k).step_by(2) {
                        // Equal magnitudes in pairs; the last bit of some differs.
                        let flip = u32::from(random.one_in(4)) << ab.ignored_bits;
                        vector[i] = vector[i - 1] ^ flip ^ if side == 0 { sign_bit(ab) } else { 0 };
                    }
                }
            }
        }
        if kind == Kind::ZeroTimesLarge {
            // A large element of B meets only zeros.
            let ab = formats[1];
            for column in &b {
                for (i, &bits) in column.iter().enumerate() {
                    if bits & !sign_bit(ab) >= number(ab, false, 30, 0) {
                        a.iter_mut().for_each(|row| row[i] = 0);
                    }
                }
            }
        }
        for element in c.iter_mut().flatten() {
            let r = random.next();
            let exponent = 2 * center + random.range(-12, 12);
            let half = cd.width == 16;
            *element = match kind {
                Kind::Bits => r as u32 & (u32::MAX >> (32 - cd.width)),
                Kind::Special if random.one_in(60) => special(cd, &mut random),
                Kind::Maximal => number(cd, seed % 2 == 1, 6 + random.range(0, 2), !(r & 0xff)),
                Kind::Zero | Kind::Sparse | Kind::Tiny | Kind::ZeroTimesLarge if r & 2 == 2 => {
                    (r as u32 & 1) << (cd.width - 1)
                }
                Kind::Tiny if r & 4 == 4 => r as u32 & if half { 0x83ff } else { 0x80ff_ffff },
                Kind::Boundary => number(cd, r & 1 == 1, random.range(0, 14), 1 << (r >> 8 & 31)),
                _ => number(cd, r & 1 == 1, exponent, r >> 8),
            };
        }
        Self::scatter(layout, &a, &b, &c)
    }

    /// The tile of A by rows, B by columns, C by rows.
    fn scatter(layout: &Layout, a: &[Vec<u32>], b: &[Vec<u32>], c: &[Vec<u32>]) -> Self {
        let gather = |registers: usize, elem: Elem, value: &dyn Fn(usize, usize, usize) -> u32| {
            let parts = layout.parts(elem);
            let word = |r, lane| (0..parts).fold(0, |word, part| word | value(r, lane, part) << (32 / parts * part));
            (0..registers).map(|r| std::array::from_fn::<u32, LANES, _>(|lane| word(r, lane))).collect()
        };
        let (ab, cd) = (layout.types.a, layout.types.c);
        let narrow = |bits: u32| bits & u32::MAX >> (32 - 32 / layout.parts(ab));
        Self {
            a: gather(layout.a_registers(), ab, &|r, lane, part| {
                let p = layout.a(r, lane, part);
                narrow(a[p.row][p.column])
            }),
            b: gather(layout.b_registers(), ab, &|r, lane, part| {
                let p = layout.b(r, lane, part);
                narrow(b[p.column][p.row])
            }),
            c: gather(layout.cd_registers(cd), cd, &|r, lane, part| {
                let p = layout.cd(cd, r, lane, part);
                c[p.row][p.column]
            }),
        }
    }

    pub(super) fn operands(&self) -> [Vec<&Register>; 3] {
        [self.a.iter().collect(), self.b.iter().collect(), self.c.iter().collect()]
    }
}

fn sign_bit(format: &Format) -> u32 {
    1 << (format.width - 1)
}

fn exponent_bits(format: &Format) -> u32 {
    ((1 << format.exponent_bits) - 1) << (format.fraction_bits + format.ignored_bits)
}
