//! What can go wrong when a kernel is compiled for the interpreter or run by it.

use std::fmt;

use ptx::ast::{Pos, Space};

/// Why a program was not compiled, a launch not started, or a run stopped.
///
/// Compilation errors are the kernel author's; launch errors the caller's; the rest are faults of the kernel while it
/// ran, each naming the instruction, block, warp and, where one lane is to blame, the lane. A launch that returns an error
/// has written an unspecified part of its results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The module has no entry of this name.
    #[error("the module has no kernel `{kernel}`")]
    NoKernel {
        /// The name asked for.
        kernel: String,
    },
    /// The module is not valid.
    #[error("not a valid module: {0}")]
    Invalid(Box<ptx::ValidateError>),
    /// The module is for newer GPUs than the profile's.
    #[error("a module with .target sm_{target} does not run on {profile}; choose a profile of sm_{target} or newer")]
    Target {
        /// The module's target.
        target: u32,
        /// Name of the profile.
        profile: &'static str,
    },
    /// The instruction is valid PTX that the interpreter does not have.
    #[error("{place}: {reason} is not supported by the interpreter")]
    Unsupported {
        /// The instruction.
        place: Place,
        /// What about it.
        reason: &'static str,
    },
    /// The profile does not have the instruction, or nobody has modelled it.
    #[error("{place}: {error}")]
    Model {
        /// The instruction.
        place: Place,
        /// What is missing.
        #[source]
        error: Box<crate::Error>,
    },
    /// The kernel exceeds a limit of the device or the interpreter.
    #[error("kernel `{kernel}`: {what} is {value}, at most {limit} allowed")]
    Limit {
        /// Kernel name.
        kernel: String,
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The most allowed.
        limit: u64,
    },
    /// The grid or block of a launch is out of range.
    #[error("kernel `{kernel}`: {what} {value:?} is out of range {range:?}")]
    Geometry {
        /// Kernel name.
        kernel: String,
        /// `grid`, `block` or `threads in a block`.
        what: &'static str,
        /// What was asked for.
        value: [u32; 3],
        /// The most allowed per dimension (each is at least 1).
        range: [u32; 3],
    },
    /// The arguments do not fit the parameters.
    #[error("kernel `{kernel}`: argument {index} {reason}")]
    Argument {
        /// Kernel name.
        kernel: String,
        /// Which argument, from 0.
        index: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The host asked for bytes that no allocation holds.
    #[error("host access to {bytes} bytes at {address:#x}: {nearest}")]
    HostAccess {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// Where the nearest allocation lies.
        nearest: Nearest,
    },
    /// The host machine could not provide the memory.
    #[error("no memory for a device allocation of {bytes} bytes")]
    OutOfMemory {
        /// Length asked for.
        bytes: u64,
    },
    /// A lane accessed bytes outside every allocation, or outside the block's shared memory.
    #[error("{site}: {bytes}-byte {space} access at {address:#x} is out of bounds: {nearest}")]
    OutOfBounds {
        /// Instruction and lane.
        site: Box<Site>,
        /// `global` or `shared`.
        space: SpaceName,
        /// The lane's address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
        /// Where the nearest allocation lies.
        nearest: Nearest,
    },
    /// A lane's address is not a multiple of the access size.
    #[error("{site}: {space} address {address:#x} is not a multiple of {bytes}")]
    Misaligned {
        /// Instruction and lane.
        site: Box<Site>,
        /// `global` or `shared`.
        space: SpaceName,
        /// The lane's address.
        address: u64,
        /// The alignment wanted: the size of the whole access.
        bytes: u32,
    },
    /// PTX leaves the result open, so there are no bits to compute.
    #[error("{site}: undefined: {reason}")]
    Undefined {
        /// Instruction and lane.
        site: Box<Site>,
        /// What is undefined.
        reason: &'static str,
    },
    /// Warps of one block wait for one another for ever.
    #[error(
        "kernel `{kernel}`, block {block:?}: barrier deadlock: {waiting} warps wait at different barriers or for warps that have exited; first: {site}"
    )]
    Deadlock {
        /// Kernel name.
        kernel: String,
        /// Block index.
        block: [u32; 3],
        /// Warps that wait.
        waiting: u32,
        /// Where the first of them waits.
        site: Box<Site>,
    },
    /// The launch ran more warp instructions than its limit.
    #[error(
        "kernel `{kernel}`: more than {limit} warp instructions in one launch; raise the limit if the kernel does end"
    )]
    Budget {
        /// Kernel name.
        kernel: String,
        /// The limit.
        limit: u64,
    },
    /// Checker: two accesses to the same bytes without an order between them, at least one a write.
    #[error("{second}: {space} race at {address:#x}: {now} after an unordered {before} by {first}; {advice}")]
    Race {
        /// The access found second (the order in which they ran is arbitrary).
        second: Box<Site>,
        /// `global` or `shared`.
        space: SpaceName,
        /// First byte in conflict.
        address: u64,
        /// What the second access is.
        now: AccessKind,
        /// What the first access was.
        before: AccessKind,
        /// The access found first.
        first: Box<Site>,
        /// What would order them.
        advice: &'static str,
    },
    /// Checker: an access to the destination of a `cp.async` that has not been waited for.
    #[error(
        "{site}: {now} of shared {address:#x}, which the copy of {copy} may still be writing; wait for its group first"
    )]
    AsyncPending {
        /// The access.
        site: Box<Site>,
        /// What it is.
        now: AccessKind,
        /// First byte in conflict.
        address: u64,
        /// The `cp.async`.
        copy: Box<Site>,
    },
    /// Checker: a read of memory that nothing has written.
    #[error("{site}: reads uninitialised {space} memory at {address:#x}")]
    UninitialisedMemory {
        /// Instruction and lane.
        site: Box<Site>,
        /// `global` or `shared`.
        space: SpaceName,
        /// First byte.
        address: u64,
    },
    /// Checker: a read of a register that the lane has not written.
    #[error("{site}: reads uninitialised register {register}")]
    UninitialisedRegister {
        /// Instruction and lane.
        site: Box<Site>,
        /// Register name.
        register: String,
    },
}

impl From<ptx::ValidateError> for ExecError {
    fn from(error: ptx::ValidateError) -> Self {
        ExecError::Invalid(Box::new(error))
    }
}

/// An instruction of a kernel's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Kernel name.
    pub kernel: String,
    /// The instruction as printed.
    pub text: String,
    /// Where it was parsed; [`Pos::NONE`] when built.
    pub pos: Pos,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`", self.kernel)?;
        if self.pos != Pos::NONE {
            write!(f, ", line {} column {}", self.pos.line, self.pos.column)?;
        }
        write!(f, ", `{}`", self.text)
    }
}

/// An instruction as some threads of a launch executed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The instruction.
    pub place: Place,
    /// Block index.
    pub block: [u32; 3],
    /// Warp within the block.
    pub warp: u32,
    /// Lane within the warp; `None` when the warp as a whole is meant.
    pub lane: Option<u32>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "{}, block ({x}, {y}, {z}), warp {}", self.place, self.warp)?;
        match self.lane {
            Some(lane) => write!(f, ", lane {lane}"),
            None => Ok(()),
        }
    }
}

/// Where an address lies relative to the allocation nearest to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// There is no allocation at all.
    Nothing,
    /// Inside `[base, base + bytes)`, `offset` bytes from its start, running past its end.
    Inside {
        /// Start of the allocation.
        base: u64,
        /// Its length.
        bytes: u64,
        /// Distance from its start.
        offset: u64,
    },
    /// `distance` bytes before the start of `[base, base + bytes)`.
    Before {
        /// Start of the allocation.
        base: u64,
        /// Its length.
        bytes: u64,
        /// Distance to its start.
        distance: u64,
    },
    /// `distance` bytes past the end of `[base, base + bytes)`.
    After {
        /// Start of the allocation.
        base: u64,
        /// Its length.
        bytes: u64,
        /// Distance from its end.
        distance: u64,
    },
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Nearest::Nothing => write!(f, "nothing is allocated"),
            Nearest::Inside { base, bytes, offset } => {
                write!(
                    f,
                    "it starts {offset} bytes into the allocation of {bytes} bytes at {base:#x} and passes its end"
                )
            }
            Nearest::Before { base, bytes, distance } => {
                write!(f, "it starts {distance} bytes before the allocation of {bytes} bytes at {base:#x}")
            }
            Nearest::After { base, bytes, distance } => {
                write!(f, "it starts {distance} bytes past the end of the allocation of {bytes} bytes at {base:#x}")
            }
        }
    }
}

/// A state space in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceName(pub Space);

impl fmt::Display for SpaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Space::Param => "param",
            Space::Global => "global",
            Space::Shared => "shared",
        })
    }
}

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store, or the landing of an asynchronous copy.
    Write,
    /// An atomic read-modify-write.
    Atomic,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Atomic => "atomic",
        })
    }
}
