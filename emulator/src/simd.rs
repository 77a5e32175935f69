//! Which vector instructions the warp paths may use.
//!
//! Every warp function is one piece of plain Rust compiled several times: for the baseline of the target
//! ([`Level::Portable`]), for AVX2 and for AVX-512. The bits never depend on the level (each function is bit-compared
//! with its scalar reference on every level the machine has); only the speed does.

pub(crate) mod lanes;
mod task;

pub(crate) use task::Task;

/// The vector instructions a warp function is compiled for.
///
/// A value is a proof that this machine has the instructions: outside this crate `Avx2` and `Avx512` come only from
/// [`Level::detect`], [`Level::available`] and [`Level::parse`], which ask the processor. Order: slower to faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Whatever the build target guarantees.
    Portable,
    /// AVX2, BMI1/2, LZCNT, FMA, F16C.
    #[non_exhaustive]
    Avx2,
    /// AVX-512 F, BW, CD, DQ, VL, and all of [`Level::Avx2`].
    #[non_exhaustive]
    Avx512,
}

impl Level {
    /// The fastest level of this machine.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx512 {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// Every level this machine has, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::detect();
        [Self::Portable, Self::Avx2, Self::Avx512].into_iter().filter(move |level| *level <= best)
    }

    /// The level called `name`: `auto` (the fastest), `off` or `portable`, `avx2`, `avx512`. `None` for an unknown name
    /// and for a level this machine does not have.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let level = match name {
            "auto" => Self::detect(),
            "off" | "portable" => Self::Portable,
            "avx2" => Self::Avx2,
            "avx512" => Self::Avx512,
            _ => return None,
        };
        (level <= Self::detect()).then_some(level)
    }

    /// The name that [`Level::parse`] takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// One register of a warp: a 32-bit pattern per lane.
pub type Warp = [u32; 32];

/// Defines a warp function: the loop of a lane function over 32 lanes, compiled for every level and chosen by the first
/// argument. In square brackets: a further argument, the same for all lanes.
macro_rules! warp_fn {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident $(<const $flag:ident: bool>)? $([$context:ident: $type:ty])? ($($arg:ident),+)
            = $lane:expr;
    ) => {
        $(#[$doc])*
        #[allow(unsafe_code)]
        $vis fn $name $(<const $flag: bool>)? (
            level: $crate::simd::Level,
            $($context: $type,)?
            $($arg: &$crate::simd::Warp,)+
            out: &mut $crate::simd::Warp,
        ) {
            #[inline(always)]
            fn body $(<const $flag: bool>)? (
                $($context: $type,)? $($arg: &$crate::simd::Warp,)+ out: &mut $crate::simd::Warp,
            ) {
                for lane in 0..32 {
                    out[lane] = $lane($($arg[lane]),+);
                }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
            fn avx2 $(<const $flag: bool>)? (
                $($context: $type,)? $($arg: &$crate::simd::Warp,)+ out: &mut $crate::simd::Warp,
            ) {
                body $(::<$flag>)? ($($context,)? $($arg,)+ out);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
            fn avx512 $(<const $flag: bool>)? (
                $($context: $type,)? $($arg: &$crate::simd::Warp,)+ out: &mut $crate::simd::Warp,
            ) {
                body $(::<$flag>)? ($($context,)? $($arg,)+ out);
            }
            match level {
                // SAFETY: a `Level` above `Portable` exists only where the processor has its features.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx512 => unsafe { avx512 $(::<$flag>)? ($($context,)? $($arg,)+ out) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx2 => unsafe { avx2 $(::<$flag>)? ($($context,)? $($arg,)+ out) },
                _ => body $(::<$flag>)? ($($context,)? $($arg,)+ out),
            }
        }
    };
}
pub(crate) use warp_fn;

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn every_available_level_parses_back_from_its_name() {
        assert_eq!(Level::available().next(), Some(Level::Portable));
        for level in Level::available() {
            assert_eq!(Level::parse(level.name()), Some(level));
        }
        assert_eq!(Level::parse("off"), Some(Level::Portable));
        assert_eq!(Level::parse("neon"), None);
        assert_eq!(Level::parse("auto"), Level::available().last());
    }
}
