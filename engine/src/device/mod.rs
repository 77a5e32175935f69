//! Where kernels run. Everything above this module is one code path for every device.
//!
//! A device takes kernels as PTX text. The text is parsed and linted *here*, before any device sees it, and is named by its
//! SHA-256: a kernel that breaks the rules of reproducible PTX cannot be registered, whatever the device would make of it.

mod arithmetic;
#[cfg(feature = "cuda")]
pub mod cuda;
mod emulated;
mod registry;

#[cfg(feature = "cuda")]
pub use cuda::CudaDevice;
pub use emulated::{EmulatedDevice, Work};
pub use registry::{Prepared, prepare, prepare_probe};

use crate::error::Result;
use crate::kernels::KernelText;

/// An allocation on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Device address of its first byte.
    pub address: u64,
    /// Size.
    pub bytes: u64,
}

impl Buffer {
    /// The buffer as a launch argument.
    pub fn arg(self) -> Arg {
        Arg::Ptr(self.address)
    }
}

/// A launch argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arg {
    /// A device address, for a `.u64` parameter.
    Ptr(u64),
    /// For a `.u32` parameter.
    U32(u32),
}

/// A kernel that a device has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId(pub usize);

/// What a device is, for records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `emulated` or `cuda`.
    pub kind: &'static str,
    /// Hardware profile whose bits it computes: `sm_90`.
    pub profile: String,
    /// The profile's arithmetic in words and numbers, one canonical text; its digest goes into records. What an emulated device computes
    /// by; of a GPU it is the claim that an audit puts to the test.
    pub description: String,
    /// The GPU; `None` for an emulated device.
    pub gpu: Option<Gpu>,
}

/// A GPU, as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// `NVIDIA H100 80GB HBM3`.
    pub model: String,
    /// Version of the CUDA driver interface: `CUDA 13.0`.
    pub driver: String,
    /// Compute capability.
    pub capability: (u32, u32),
}

/// A place to allocate, launch and read back. Calls on one device run in order; a launch is complete before the next begins.
pub trait Device: Send {
    /// What it is.
    fn info(&self) -> DeviceInfo;

    /// Parses, lints, compiles and keeps a kernel. The same text registered twice is one kernel.
    ///
    /// # Errors
    /// [`Error::KernelParse`](crate::Error::KernelParse), [`Error::KernelLint`](crate::Error::KernelLint), or
    /// [`Error::Device`](crate::Error::Device) if the device cannot run it.
    fn register(&mut self, kernel: &KernelText) -> Result<KernelId>;

    /// [`Device::register`] for a probe, which may flush and use any special function: for finding out what a device does. No kernel of a model
    /// comes this way.
    ///
    /// # Errors
    /// As [`Device::register`].
    fn register_probe(&mut self, kernel: &KernelText) -> Result<KernelId>;

    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when there is no room.
    fn alloc(&mut self, bytes: u64) -> Result<Buffer>;

    /// Gives memory back.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the buffer is not one of this device's.
    fn free(&mut self, buffer: Buffer) -> Result<()>;

    /// Copies bytes to a device address.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the range is not within one allocation.
    fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<()>;

    /// Copies bytes from a device address.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the range is not within one allocation.
    fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<()>;

    /// Runs a kernel with the block size it was registered with. A pointer argument lies within an allocation of this device.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) for arguments that do not fit the parameters, and for whatever goes wrong on the device: an
    /// access out of bounds, a race the checker found. A GPU runs behind the host: what goes wrong there may be told by a later call.
    fn launch(&mut self, kernel: KernelId, grid: [u32; 3], args: &[Arg]) -> Result<()>;
}
