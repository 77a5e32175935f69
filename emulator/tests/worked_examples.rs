//! Worked examples of the specifications: `gpu-arithmetic` section 7 (E), `verification-and-margingate` 6.1 (B), computed by others.

use emulator::format::Elem::{self, Bf16, E4m3, F16, F32, F64, Tf32};
use emulator::mma::{Family, Instruction, Scales, Types};
use emulator::profile::{Profile, ZeroPolicy};

const BOTH: [ZeroPolicy; 2] = [ZeroPolicy::Exclude, ZeroPolicy::SentinelMinus126];

struct Example {
    profile: &'static str,
    types: Types,
    /// Products of the instruction; the elements given are padded with zeros to it.
    k: usize,
}

const fn example(profile: &'static str, ab: Elem, cd: Elem, k: usize) -> Example {
    Example { profile, types: Types::new(ab, cd), k }
}

impl Example {
    fn run(&self, policy: ZeroPolicy, a: &[u64], b: &[u64], c: u64) -> u64 {
        let pad = |elements: &[u64]| {
            let mut all = elements.to_vec();
            all.resize(self.k, 0);
            all
        };
        let profile = Profile::by_name(self.profile).unwrap().with_zero_policy(policy);
        profile.dot(Family::Mma, self.types).unwrap().dot(&pad(a), &pad(b), c)
    }

    fn gives(&self, a: &[u64], b: &[u64], c: u64, d: u64) {
        for policy in BOTH {
            let found = self.run(policy, a, b, c);
            assert_eq!(found, d, "{} {} {policy:?}: {found:x}, not {d:x}", self.profile, self.types);
        }
    }
}

const VOLTA: Example = example("sm_70", F16, F32, 4);
const AMPERE: Example = example("sm_80", Bf16, F32, 16);
const HOPPER: Example = example("sm_90", Bf16, F32, 16);

#[test]
fn e1_accumulator_width() {
    let (a, b) = ([0xf000, 0xb800, 0xb400, 0xb000], [0x6400, 0x3c00, 0x3c00, 0x3c00]);
    VOLTA.gives(&a, &b, 0x4b00_0000, 0);
    example("sm_75", F16, F32, 8).gives(&a, &b, 0x4b00_0000, 0xbf00_0000);
    let (a, b) = ([0xc600, 0xbf00, 0xbe80, 0xbe00], [0x4480, 0x3f80, 0x3f80, 0x3f80]);
    AMPERE.gives(&a, &b, 0x4b00_0000, 0xbf00_0000);
    HOPPER.gives(&a, &b, 0x4b00_0000, 0xbf40_0000);
    example("sm_100", Bf16, F32, 16).gives(&a, &b, 0x4b00_0000, 0xbf40_0000);
}

/// One instruction as its vendor writes it, under both policies; operands padded with zeros.
fn instruction_gives(profile: &str, (family, text): (&str, &str), a: &[u64], b: &[u64], c: u64, d: u64) {
    let instruction = Instruction::parse(family, text).unwrap();
    let pad = |elements: &[u64]| {
        let mut all = elements.to_vec();
        all.resize(instruction.shape.k as usize, 0);
        all
    };
    for policy in BOTH {
        let profile = Profile::by_name(profile).unwrap().with_zero_policy(policy);
        let found = profile.mma(&instruction).unwrap().dot(&pad(a), &pad(b), c);
        assert_eq!(found, d, "{} {instruction} {policy:?}: {found:x}, not {d:x}", profile.name);
    }
}

#[test]
fn e1_on_larger_tiles_and_on_amd() {
    let (a, b) = ([0xf000, 0xb800, 0xb400, 0xb000], [0x6400, 0x3c00, 0x3c00, 0x3c00]);
    let mfma = |profile, text, a: &[u64], b: &[u64], d| {
        instruction_gives(profile, ("mfma", text), a, b, 0x4b00_0000, d);
    };
    mfma("gfx908", "f32_32x32x8f16", &a, &b, 0xbf60_0000);
    let (a, b) = ([0xc600, 0xbf00, 0xbe80, 0xbe00], [0x4480, 0x3f80, 0x3f80, 0x3f80]);
    instruction_gives("sm_90", ("wgmma", "m64n8k16.f32.bf16.bf16"), &a, &b, 0x4b00_0000, 0xbf40_0000);
    instruction_gives("sm_100", ("tcgen05.mma", "m64n8k16.f32.bf16.bf16"), &a, &b, 0x4b00_0000, 0xbf40_0000);
    mfma("gfx90a", "f32_32x32x4bf16", &a, &b, 0xbec0_0000);
    mfma("gfx90a", "f32_32x32x8bf16_1k", &a, &b, 0);
    mfma("gfx942", "f32_16x16x16_bf16", &a, &b, 0xbf00_0000);
}

fn scaled(profile: &str, text: &str, a: &[u64], b: &[u64], c: u64, scales: Scales<'_>) -> [u64; 2] {
    let instruction = Instruction::parse("mma.block_scale", text).unwrap();
    let pad = |elements: &[u64]| {
        let mut all = elements.to_vec();
        all.resize(instruction.shape.k as usize, 0);
        all
    };
    BOTH.map(|policy| {
        let profile = Profile::by_name(profile).unwrap().with_zero_policy(policy);
        profile.mma(&instruction).unwrap().dot_scaled(&pad(a), &pad(b), c, scales)
    })
}

#[test]
fn e11_a_pair_of_scales_for_the_block() {
    let scales = Scales { a: &[0x80], b: &[0x7e] };
    let text = "m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0";
    assert_eq!(scaled("sm_120", text, &[0x3c, 0x38], &[0x3c, 0x08], 0x3f80_0000, scales), [0x4051_0000; 2]);
}

#[test]
fn e12_groups_of_fp4_under_ue4m3_scales() {
    let mut row = [0; 18];
    (row[0], row[1], row[2], row[16], row[17]) = (6, 6, 1, 2, 1);
    let scales = Scales { a: &[0x38, 0x3c, 0x38, 0x38], b: &[0x40, 0x01, 0x38, 0x38] };
    let text = "m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3";
    assert_eq!(scaled("sm_120", text, &row, &row, 0x3f00_0000, scales), [0x4282_01e0; 2]);
}

#[test]
fn e15_cdna3_rounds_down() {
    let instruction = ("mfma", "f32_32x32x8_f16");
    instruction_gives("gfx942", instruction, &[0x6c00], &[0x6c00], 0xb580_0000, 0x4b7f_ffff);
    instruction_gives("gfx942", instruction, &[0xec00], &[0x6c00], 0x3580_0000, 0xcb80_0000);
}

#[test]
fn e16_cdna2_flushes_subnormal_operands() {
    let instruction = ("mfma", "f32_32x32x8f16");
    instruction_gives("gfx90a", instruction, &[0x0010, 0x3c00], &[0x3c00, 0x3c00], 0, 0x3f80_0000);
    // CDNA1 keeps them: 2^-20 + 1.
    instruction_gives("gfx908", instruction, &[0x0010, 0x3c00], &[0x3c00, 0x3c00], 0, 0x3f80_0008);
}

/// On the instruction families that have an FP8 unit.
fn fp8(profile: &str, family: Family, a: &[u64], b: &[u64], c: u64) -> [u64; 2] {
    let pad = |elements: &[u64]| [elements, &[0; 32][elements.len()..]].concat();
    BOTH.map(|policy| {
        let profile = Profile::by_name(profile).unwrap().with_zero_policy(policy);
        profile.dot(family, Types::new(E4m3, F32)).unwrap().dot(&pad(a), &pad(b), c)
    })
}

#[test]
fn e2_e7_thirteen_fraction_bits() {
    let (a, b, c) = ([0xf0, 0xb0, 0xa8, 0xa0], [0x70, 0x38, 0x38, 0x38], 0x4680_0000);
    assert_eq!(fp8("sm_89", Family::Mma, &a, &b, c), [0; 2]);
    assert_eq!(fp8("sm_90", Family::Wgmma, &a, &b, c), [0; 2]);
    assert_eq!(fp8("sm_120", Family::Mma, &a, &b, c), [0xbf60_0000; 2]);
    assert_eq!(fp8("sm_89", Family::Mma, &[0x38, 0x08, 0x08], &[0x38, 0x08, 0x02], 0), [0x3f80_0800; 2]);
    assert_eq!(fp8("sm_90", Family::Wgmma, &[], &[], 0x3fff_ffff), [0x3fff_fc00; 2]);
}

#[test]
fn e14_f64_is_a_chain_of_fused_multiply_adds() {
    let (ulp, one) = (0x3ca0_0000_0000_0000, 0x3ff0_0000_0000_0000);
    example("sm_80", F64, F64, 4).gives(&[ulp, one], &[one, one], ulp, 0x3ff0_0000_0000_0001);
}

#[test]
fn e3_products_are_not_renormalised() {
    VOLTA.gives(&[0x3e00, 0x0c00, 0x0c00], &[0x3e00, 0x1000, 0x1000], 0, 0x4010_0001);
    VOLTA.gives(&[0x3c00, 0x0c00, 0x0c00], &[0x4080, 0x1000, 0x1000], 0, 0x4010_0000);
}

#[test]
fn e5_f16_results() {
    let hopper = example("sm_90", F16, F16, 16);
    hopper.gives(&[0x3c00, 0x1000], &[0x3c00, 0x3c00], 0, 0x3c00);
    hopper.gives(&[0x3c00, 0x1000, 0x0c00], &[0x3c00, 0x3c00, 0x0c00], 0, 0x3c01);
    example("sm_80", F16, F16, 16).gives(&[0x5c00, 0x4c00], &[0x5bff, 0x3c00], 0, 0x7c00);
}

#[test]
fn e6_blocks() {
    let a = [0x6c00, 0, 0, 0, 0, 0, 0, 0, 0xec00, 0x1c00];
    let b = [0x6c00, 0, 0, 0, 0, 0, 0, 0, 0x6c00, 0x1c00];
    example("sm_80", F16, F32, 16).gives(&a, &b, 0x3f80_0000, 0);
    example("sm_90", F16, F32, 16).gives(&a, &b, 0x3f80_0000, 0x3f80_0000);
}

#[test]
fn e8_overflow_happens_only_at_the_end() {
    HOPPER.gives(&[0x7f00], &[0x3f80], 0x7f00_0000, 0x7f80_0000);
    HOPPER.gives(&[0x7f00, 0xff00, 0x3f80], &[0x7180, 0x7180, 0x3f80], 0, 0);
}

#[test]
fn e9_zero_policies_differ() {
    let zero_times_large = ([0x0000, 0x2b80], [0x7f00, 0x2b80]);
    let tiny = ([0x1980; 4], [0x1a00; 4]);
    for ((a, b), excluded) in
        [((&zero_times_large.0[..], &zero_times_large.1[..]), 0x1780_0000), ((&tiny.0, &tiny.1), 1)]
    {
        assert_eq!(AMPERE.run(ZeroPolicy::SentinelMinus126, a, b, 0), 0);
        assert_eq!(AMPERE.run(ZeroPolicy::Exclude, a, b, 0), excluded);
    }
    // Open point U1 of the verification specification.
    let (a, b) = ([0x0000, 0x2180], [0x7180, 0x2180]);
    assert_eq!(HOPPER.run(ZeroPolicy::SentinelMinus126, &a, &b, 0), 0);
    assert_eq!(HOPPER.run(ZeroPolicy::Exclude, &a, &b, 0), 0x0380_0000);
}

#[test]
fn e10_a_zero_is_positive() {
    HOPPER.gives(&[0x0000], &[0x8000], 0x8000_0000, 0);
}

#[test]
fn e13_specials() {
    HOPPER.gives(&[0x7f80], &[0x0000], 0, 0x7fff_ffff);
    example("sm_80", Tf32, F32, 8).gives(&[0x7f80_0001], &[0x3f80_0000], 0, 0x7f80_0000);
    HOPPER.gives(&[0x7f80, 0xff80], &[0x3f80, 0x3f80], 0, 0x7fff_ffff);
    HOPPER.gives(&[0xff80], &[0x3f80], 0x7f7f_ffff, 0xff80_0000);
    HOPPER.gives(&[0x3f80], &[0x3f80], 0x7fc0_1234, 0x7fff_ffff);
}

/// B1 to B7: the same bf16 products on Ampere and Hopper.
#[test]
fn conformance_vectors_of_the_verification_contract() {
    let one = 0x3f80;
    let p = |exponent: i64| ((127 + exponent) << 7) as u64; // 2^exponent
    let minus = |bits: u64| bits | 0x8000;
    let first =
        |x: u64, rest: u64, n: usize| -> Vec<u64> { std::iter::once(x).chain(std::iter::repeat_n(rest, n)).collect() };

    let b1 = first(one, 0x33d7, 7);
    example("sm_80", Bf16, F32, 8).gives(&b1, &[one; 8], 0, 0x3f80_0003);
    let both = |a: &[u64], b: &[u64], ampere, hopper| {
        AMPERE.gives(a, b, 0, ampere);
        HOPPER.gives(a, b, 0, hopper);
    };
    both(&[0x3fc0, p(-23), p(-24), p(-24)], &[0x3fc0, one, one, one], 0x4010_0001, 0x4010_0001);
    both(&[0x4010, p(-23), p(-24), p(-24)], &[one; 4], 0x4010_0000, 0x4010_0001);
    let small = first(one, p(-12), 15);
    both(&small, &small, 0x3f80_0007, 0x3f80_0007);
    let b5: Vec<u64> = [first(one, p(-12), 7), vec![p(-13); 8]].concat();
    both(&b5, &small, 0x3f80_0003, 0x3f80_0005);
    let b6 = [vec![one, minus(one)], vec![p(-13); 14]].concat();
    both(&b6, &[vec![one, one], vec![p(-12); 14]].concat(), 0x3480_0000, 0x34e0_0000);
    both(&first(minus(one), minus(p(-13)), 15), &small, 0xbf80_0000, 0xbf80_0003);
}

/// Products of one block commute, and so do A and B; negation carries through.
#[test]
fn invariants_of_the_fused_sum() {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..2_000 {
        let mut draw = || -> Vec<u64> { (0..16).map(|_| (next() & 0x8fff) | 0x3000).collect() };
        let (a, b) = (draw(), draw());
        let c = (next() & 0x87ff_ffff) | 0x3800_0000;
        let reference = HOPPER.run(ZeroPolicy::Exclude, &a, &b, c);
        let reversed = |v: &[u64]| v.iter().rev().copied().collect::<Vec<_>>();
        HOPPER.gives(&reversed(&a), &reversed(&b), c, reference);
        HOPPER.gives(&b, &a, c, reference);
        let negated: Vec<u64> = a.iter().map(|x| x ^ 0x8000).collect();
        let expected = if reference == 0 { 0 } else { reference ^ 0x8000_0000 };
        HOPPER.gives(&negated, &b, c ^ 0x8000_0000, expected);
    }
}
