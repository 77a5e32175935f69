//! How an instruction stops a run, before the run knows how to name the place.

use ptx::ast::Space;

use super::error::ExecError;

/// Why the instruction at the warp's program counter cannot be executed.
#[derive(Debug)]
pub(super) struct Fault {
    /// The lane to blame, when it is one.
    pub lane: Option<u32>,
    pub kind: FaultKind,
}

#[derive(Debug)]
pub(super) enum FaultKind {
    OutOfBounds {
        space: Space,
        address: u64,
        bytes: u32,
    },
    Misaligned {
        space: Space,
        address: u64,
        bytes: u32,
    },
    Undefined(&'static str),
    /// Found by the checker, complete.
    Checked(ExecError),
}

/// Boxed, so that the way without faults stays small.
pub(super) type Outcome<T> = Result<T, Box<Fault>>;

#[cold]
#[inline(never)]
pub(super) fn undefined<T>(lane: Option<u32>, reason: &'static str) -> Outcome<T> {
    Err(Box::new(Fault { lane, kind: FaultKind::Undefined(reason) }))
}

/// The fault of an access that is not within memory or not aligned to its size.
#[cold]
#[inline(never)]
pub(super) fn bad_access<T>(space: Space, lane: usize, address: u64, bytes: u32) -> Outcome<T> {
    let kind = if address.is_multiple_of(u64::from(bytes)) {
        FaultKind::OutOfBounds { space, address, bytes }
    } else {
        FaultKind::Misaligned { space, address, bytes }
    };
    Err(Box::new(Fault { lane: Some(lane as u32), kind }))
}
