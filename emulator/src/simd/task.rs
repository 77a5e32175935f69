//! Compiling a whole piece of work for a level, rather than one warp function.

use super::Level;

/// Work that is compiled once for every level. `run` must be `#[inline(always)]`, and so must what it calls and is meant
/// to be compiled for the level too.
pub(crate) trait Task {
    /// What it gives.
    type Output;

    /// Does the work.
    fn run(self) -> Self::Output;
}

impl Level {
    /// Runs `task` as compiled for this level.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        match self {
            // SAFETY: a `Level` above `Portable` exists only where the processor has its features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { avx512(task) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2(task) },
            _ => task.run(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,fma,f16c")]
fn avx2<T: Task>(task: T) -> T::Output {
    task.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,fma,f16c,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn avx512<T: Task>(task: T) -> T::Output {
    task.run()
}
