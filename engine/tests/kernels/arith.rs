//! The arithmetic that the models of the kernels are written in: the emulator's scalar *reference* functions on bits, and
//! the reference dot-add of a generation's tensor core. None of it is what the interpreter runs.

use emulator::format::Elem;
use emulator::mma::{Instruction, M16N8K16, Operation, Types};
use emulator::mufu::{self, MufuTables};
use emulator::profile::Profile;
use emulator::scalar::{self, Bf16, Mods};

type Single = scalar::F32;

/// `add.rn.f32`.
pub fn add(a: u32, b: u32) -> u32 {
    scalar::add::<Single>(a, b, Mods::RN)
}

/// `sub.rn.f32`.
pub fn sub(a: u32, b: u32) -> u32 {
    scalar::sub::<Single>(a, b, Mods::RN)
}

/// `mul.rn.f32`.
pub fn mul(a: u32, b: u32) -> u32 {
    scalar::mul::<Single>(a, b, Mods::RN)
}

/// `fma.rn.f32`.
pub fn fma(a: u32, b: u32, c: u32) -> u32 {
    scalar::fma::<Single>(a, b, c, Mods::RN)
}

/// `div.rn.f32`.
pub fn div(a: u32, b: u32) -> u32 {
    scalar::div::<Single>(a, b, Mods::RN)
}

/// `sqrt.rn.f32`.
pub fn sqrt(a: u32) -> u32 {
    scalar::sqrt::<Single>(a, Mods::RN)
}

/// `rcp.rn.f32`.
pub fn rcp_rn(a: u32) -> u32 {
    scalar::rcp::<Single>(a, Mods::RN)
}

/// `2^(x c)` for `x <= 0` as kernels without special functions compute it.
pub fn exp2(x: u32, c: u32) -> u32 {
    const MAGIC: u32 = 0x4b40_0000;
    const ONE: u32 = 0x3f80_0000;
    let t = fma(x, c, MAGIC);
    let r = fma(x, c, sub(MAGIC, t));
    let coefficients = [0x3aaf_9f29, 0x3c1d_96a6, 0x3d63_5774, 0x3e75_fdee, 0x3f31_7218, ONE];
    let p = coefficients.into_iter().fold(0x3920_fdde, |p, coefficient| fma(p, r, coefficient));
    let floor = (-125.0 / f64::from(f32::from_bits(c))) as f32;
    let power = (t << 23).wrapping_add(ONE);
    if f32::from_bits(x) < floor { 0 } else { mul(p, power) }
}

/// `max.f32`.
pub fn max(a: u32, b: u32) -> u32 {
    scalar::max::<Single>(a, b, false, false)
}

/// f32 to bf16, nearest even.
pub fn narrow(a: u32) -> u16 {
    scalar::convert::<Single, Bf16>(a, Mods::RN)
}

/// bf16 to f32.
pub fn widen(a: u16) -> u32 {
    scalar::widen_bf16(a)
}

/// A generation: its matrix unit (by the reference) and its special functions.
pub struct Gpu {
    pub profile: &'static Profile,
    mma: Operation,
}

impl Gpu {
    /// The generations the suite runs on: the two ways NVIDIA's tensor cores have added bf16 products so far.
    pub fn all() -> Vec<Gpu> {
        ["sm_80", "sm_90"].into_iter().map(Gpu::named).collect()
    }

    pub fn named(name: &str) -> Gpu {
        let profile = Profile::by_name(name).expect("a profile of that name");
        let instruction = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
        Gpu { profile, mma: profile.mma(&instruction).expect("every profile since Ampere has it") }
    }

    /// `ex2.approx.ftz.f32`.
    pub fn ex2(&self, a: u32) -> u32 {
        mufu::ex2(MufuTables::g80(), a)
    }

    /// `rcp.approx.ftz.f32`.
    pub fn rcp(&self, a: u32) -> u32 {
        mufu::rcp(MufuTables::g80(), a)
    }

    /// `rsqrt.approx.ftz.f32`.
    pub fn rsq(&self, a: u32) -> u32 {
        mufu::rsq(MufuTables::g80(), a)
    }

    /// One output of `mma.m16n8k16`: `acc + a . b`, 16 products.
    pub fn mma(&self, a: &[u16], b: &[u16], acc: u32) -> u32 {
        let wide = |v: &[u16]| v.iter().map(|&v| u64::from(v)).collect::<Vec<_>>();
        assert_eq!((a.len(), b.len()), (16, 16), "a k16 block");
        u32::try_from(self.mma.dot(&wide(a), &wide(b), acc.into())).expect("an f32 accumulator")
    }
}
