//! Operands that find mistakes: boundary patterns, and random bits weighted toward alignment, cancellation, ties and
//! the ends of the exponent range.

use emulator::scalar::{Ieee, Mods, Rounding, mul};

/// A small generator with a fixed seed (SplitMix64): tests repeat exactly.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Hand-picked patterns: zeros, ends of the subnormal and normal ranges, one and its neighbours, powers around the
/// precision, infinities and NaNs, all with both signs.
pub fn boundary<F: Ieee>() -> Vec<F::Bits> {
    let frac = F::FORMAT.fraction_bits;
    let max_field = (1u64 << F::FORMAT.exponent_bits) - 1;
    let one_field = F::FORMAT.bias as u64;
    let fields = [0, 1, 2, one_field - 2, one_field - 1, one_field, one_field + 1, max_field - 2, max_field - 1];
    let wide = [one_field + u64::from(frac), one_field + u64::from(frac) + 1, one_field - u64::from(frac) - 1];
    let fractions = [0, 1, 2, (1u64 << frac) - 1, 1 << (frac - 1), (1 << (frac - 1)) + 1, (1 << (frac - 1)) - 1];
    let mut patterns = Vec::new();
    for field in fields.into_iter().chain(wide) {
        patterns.extend(fractions.map(|fraction| field.min(max_field - 1) << frac | fraction));
    }
    patterns.extend([F::INF, F::INF | 1, F::INF | 1 << (frac - 1), F::NAN]);
    let negative: Vec<u64> = patterns.iter().map(|bits| bits | F::SIGN).collect();
    patterns.into_iter().chain(negative).map(F::narrow).collect()
}

fn fraction(random: &mut Random, bits: u32) -> u64 {
    let mask = (1u64 << bits) - 1;
    let word = random.next();
    let shift = random.below(u64::from(bits) + 1);
    match random.below(6) {
        0 | 1 => word & mask,
        2 => (word & mask) >> shift,
        3 => (word << shift) & mask,
        4 => (1u64 << random.below(u64::from(bits))) & mask,
        _ => mask ^ (word & mask) >> shift,
    }
}

fn with_field<F: Ieee>(random: &mut Random, field: i64) -> F::Bits {
    let max_field = (1i64 << F::FORMAT.exponent_bits) - 1;
    let sign = if random.next() & 1 == 1 { F::SIGN } else { 0 };
    F::narrow(
        sign | (field.clamp(0, max_field - 1) as u64) << F::FORMAT.fraction_bits
            | fraction(random, F::FORMAT.fraction_bits),
    )
}

fn field_of<F: Ieee>(bits: F::Bits) -> i64 {
    ((F::widen(bits) & F::INF) >> F::FORMAT.fraction_bits) as i64
}

/// One weighted random operand.
pub fn operand<F: Ieee>(random: &mut Random) -> F::Bits {
    let max_field = 1u64 << F::FORMAT.exponent_bits;
    match random.below(16) {
        0 => {
            let patterns = boundary::<F>();
            patterns[random.below(patterns.len() as u64) as usize]
        }
        1 | 2 => with_field::<F>(random, 0),
        3 => with_field::<F>(random, max_field as i64 - 2),
        4..=7 => {
            let near = random.below(2 * u64::from(F::FORMAT.fraction_bits) + 8) as i64
                - i64::from(F::FORMAT.fraction_bits)
                - 4;
            with_field::<F>(random, i64::from(F::FORMAT.bias) + near)
        }
        _ => {
            let field = random.below(max_field) as i64;
            with_field::<F>(random, field)
        }
    }
}

/// Two operands whose exponents often lie within the alignment range of each other.
pub fn pair<F: Ieee>(random: &mut Random) -> (F::Bits, F::Bits) {
    let a = operand::<F>(random);
    let b = match random.below(4) {
        0 => operand::<F>(random),
        1 => {
            let flip = random.below(4);
            F::narrow((F::widen(a) ^ F::SIGN).wrapping_add(flip).wrapping_sub(2) & (F::SIGN | F::NAN))
        }
        _ => {
            let reach = i64::from(F::FORMAT.fraction_bits) + 4;
            let offset = random.below(2 * reach as u64 + 1) as i64 - reach;
            with_field::<F>(random, field_of::<F>(a) + offset)
        }
    };
    (a, b)
}

/// Three operands of an fma; the addend often lies near the product, and often almost cancels it.
pub fn triple<F: Ieee>(random: &mut Random) -> (F::Bits, F::Bits, F::Bits) {
    let (a, b) = match random.below(3) {
        0 => pair::<F>(random),
        // A product whose exponent is in range.
        1 => {
            let a = operand::<F>(random);
            let spread = random.below(9) as i64 - 4;
            let b = with_field::<F>(random, 2 * i64::from(F::FORMAT.bias) - field_of::<F>(a) + spread);
            (a, b)
        }
        _ => (operand::<F>(random), operand::<F>(random)),
    };
    let product = mul::<F>(a, b, Mods::RN.with_rounding(Rounding::TowardZero));
    let c = match random.below(4) {
        0 => operand::<F>(random),
        1 => {
            F::narrow((F::widen(product) ^ F::SIGN).wrapping_add(random.below(5)).wrapping_sub(2) & (F::SIGN | F::NAN))
        }
        _ => {
            let reach = 2 * i64::from(F::FORMAT.fraction_bits) + 6;
            let offset = random.below(2 * reach as u64 + 1) as i64 - reach;
            with_field::<F>(random, field_of::<F>(product) + offset)
        }
    };
    (a, b, c)
}
