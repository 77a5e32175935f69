//! Functions of the CUDA math library, as sequences of scalar operations and the special function unit.
//!
//! Source: `specs/kernel-recipes.md` 1 and 3 (facts: constants and order). [`Build`] chooses between the plain build and
//! the one that flushes (`--use_fast_math` objects, Triton's libdevice). What the recipes do not give (`tanhf`, arguments
//! that need the long range reduction) is refused by name.

use crate::Error;
use crate::mufu::{self, MufuTables};
use crate::open::Open;
use crate::scalar::{self, F32, Int, Mods, Rounding};

/// How the library was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Build {
    /// Subnormals kept.
    Plain,
    /// Every f32 operation flushes.
    Ftz,
}

impl Build {
    fn mods(self) -> Mods {
        Mods { ftz: self == Self::Ftz, ..Mods::RN }
    }
}

const NAN: u32 = 0x7fff_ffff;
const INF: u32 = 0x7f80_0000;
const SIGN: u32 = 1 << 31;
const LOG2_E: u32 = 0x3fb8_aa3b;
const LN_2: u32 = 0x3f31_7218;

/// `expf` of CUDA 11 and later: range reduction by a magic addition, one `MUFU.EX2`.
///
/// # Bits
/// Up to 1.931 ulp. Agrees with the value published for `expf(-4.75)` under CUDA 11.8. NaN gives `7fffffff`.
#[must_use]
pub fn expf(tables: &MufuTables, build: Build, x: u32) -> u32 {
    const MAGIC: u32 = 0x4b40_0001; // 12582913
    let mods = build.mods();
    let fma = |a, b, c, mods| scalar::fma::<F32>(a, b, c, mods);
    let t = fma(x, 0x3bbb_989d, 0x3f00_0000, Mods { sat: true, ..mods });
    let j = fma(t, 0x437c_0000, MAGIC, mods.with_rounding(Rounding::Down)); // 252
    let k = scalar::add::<F32>(j, 0xcb40_007f, mods);
    let q = fma(x, LOG2_E, scalar::neg::<F32>(k, false), mods);
    let q = fma(x, 0x32a5_7060, q, mods);
    scalar::mul::<F32>(mufu::ex2(tables, q), j << 23, mods)
}

/// `__expf`, and `expf` under fast math: `EX2(x * log2(e))`, the product rounded, everything flushed.
#[must_use]
pub fn fast_expf(tables: &MufuTables, x: u32) -> u32 {
    mufu::ex2(tables, scalar::mul::<F32>(x, LOG2_E, Mods::RN_FTZ))
}

/// `exp2f`: the unit, with halving and squaring below -126 in the plain build.
#[must_use]
pub fn exp2f(tables: &MufuTables, build: Build, x: u32) -> u32 {
    match build {
        Build::Plain => mufu::approx::ex2_approx(tables, mufu::approx::Switches::DEFAULT, x),
        Build::Ftz => mufu::ex2(tables, x),
    }
}

/// `tl.exp` of Triton in f32: the product with `log2(e)` rounded, then the unit without `.ftz`.
#[must_use]
pub fn triton_exp(tables: &MufuTables, x: u32) -> u32 {
    exp2f(tables, Build::Plain, scalar::mul::<F32>(x, LOG2_E, Mods::RN))
}

/// `logf`: a polynomial, no special function.
///
/// # Bits
/// Zeros give `-inf`, other negative arguments and NaN `7fffffff`, `+inf` gives `+inf`. The flushing build takes
/// subnormals for zeros.
#[must_use]
pub fn logf(build: Build, x: u32) -> u32 {
    const COEFFICIENTS: [u32; 8] =
        [0x3e10_39f6, 0xbdf8_cdcc, 0x3e0f_2955, 0xbe2a_d8b9, 0x3e4c_ed0b, 0xbe7f_ff22, 0x3eaa_aa78, 0xbf00_0000];
    let mods = build.mods();
    let magnitude = x & !SIGN;
    let subnormal = (1..0x0080_0000).contains(&magnitude);
    if magnitude == 0 || (subnormal && build == Build::Ftz) {
        return SIGN | INF;
    }
    if magnitude > INF || x & SIGN != 0 {
        return NAN;
    }
    if magnitude == INF {
        return INF;
    }
    // 2^23, and -23 for it.
    let (x, offset) = if subnormal { (scalar::mul::<F32>(x, 0x4b00_0000, mods), 0xc1b8_0000) } else { (x, 0) };
    let e = x.wrapping_sub(0x3f2a_aaab) & 0xff80_0000;
    let m = x.wrapping_sub(e);
    let i = scalar::from_int::<F32>(u64::from(e), Int::S32, Mods::RN);
    let i = scalar::fma::<F32>(i, 0x3400_0000, offset, mods); // 2^-23: exact
    let f = scalar::sub::<F32>(m, 0x3f80_0000, mods);
    let p = COEFFICIENTS.into_iter().fold(0xbe05_5027, |p, c| scalar::fma::<F32>(p, f, c, mods));
    let p = scalar::mul::<F32>(f, p, mods);
    let r = scalar::fma::<F32>(p, f, f, mods);
    scalar::fma::<F32>(i, LN_2, r, mods)
}

/// `__logf`, and `logf` under fast math: `LG2(x) * ln(2)`, everything flushed.
#[must_use]
pub fn fast_logf(tables: &MufuTables, x: u32) -> u32 {
    scalar::mul::<F32>(mufu::lg2(tables, x), LN_2, Mods::RN_FTZ)
}

/// `sinf` of magnitudes below 105615: three-part range reduction and a polynomial, no special function.
///
/// # Bits
/// Infinities and NaN give `7fffffff`; the sign of zero is kept.
///
/// # Errors
/// [`Error::Unsupported`] for larger finite magnitudes.
pub fn sinf(build: Build, x: u32) -> Result<u32, Error> {
    quadrant(build, x, false)
}

/// `cosf`, as [`sinf`].
///
/// # Errors
/// As [`sinf`].
pub fn cosf(build: Build, x: u32) -> Result<u32, Error> {
    quadrant(build, x, true)
}

fn quadrant(build: Build, x: u32, cosine: bool) -> Result<u32, Error> {
    const LIMIT: u32 = 0x47ce_4780; // 105615
    let magnitude = x & !SIGN;
    if magnitude >= INF {
        return Ok(NAN);
    }
    if magnitude >= LIMIT {
        return Err(Open::LargeSine.unsupported());
    }
    let mods = build.mods();
    let fma = |a, b, c| scalar::fma::<F32>(a, b, c, mods);
    let turns = scalar::mul::<F32>(x, 0x3f22_f983, mods);
    let q = scalar::to_int::<F32>(turns, Int::S32, Rounding::NearestEven, mods.ftz) as u32;
    let n = scalar::from_int::<F32>(u64::from(q), Int::S32, Mods::RN);
    let t = [0xbfc9_0fda, 0xb3a2_2168, 0xa7c2_34c5].into_iter().fold(x, |t, part| fma(n, part, t));
    let s = scalar::mul::<F32>(t, t, mods);
    let q = if cosine { q.wrapping_add(1) } else { q };
    // The odd quadrants of the sine, which are the even ones of the cosine, use the cosine's polynomial.
    let value = if q & 1 == 1 {
        let p = [0xbab6_07ed, 0x3d2a_aabb, 0xbeff_ffff].into_iter().fold(0x37cb_ac00, |p, c| fma(p, s, c));
        fma(p, s, 0x3f80_0000)
    } else {
        let u = fma(s, t, 0);
        let p = [0x3c08_85e4, 0xbe2a_aaa8].into_iter().fold(0xb94d_4153, |p, c| fma(p, s, c));
        fma(p, u, t)
    };
    Ok(if q & 2 == 2 { value ^ SIGN } else { value })
}

/// `tanhf`.
///
/// # Errors
/// Always [`Error::Unsupported`]: no recipe gives its constants.
pub fn tanhf(_build: Build, _x: u32) -> Result<u32, Error> {
    Err(Open::Tanhf.unsupported())
}

/// SiLU as PyTorch and vLLM compute it in f32: `x / (1 + expf(-x))`, the division correctly rounded.
#[must_use]
pub fn silu(tables: &MufuTables, x: u32) -> u32 {
    let e = expf(tables, Build::Plain, scalar::neg::<F32>(x, false));
    scalar::div::<F32>(x, scalar::add::<F32>(0x3f80_0000, e, Mods::RN), Mods::RN)
}
