//! The driver's library: is it there, is it whole, and which GPUs does it see?
//!
//! The library is looked for when a GPU is asked for, never before. `cudarc` panics on a library or a symbol that is absent; so both are
//! looked for first, and nothing here or in [`context`](super::context) calls a function that is not in [`SYMBOLS`].

use cudarc::driver::{DriverError, result, sys};

/// Every function that is called. A driver that lacks one is refused before the first call.
const SYMBOLS: [&str; 23] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemsetD8Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuLaunchKernel",
];

/// The first driver interface that reads PTX 7.0, the version in the header of every kernel: CUDA 11.0.
const OLDEST: i32 = 11_000;

/// A GPU that the driver sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its number: `cuda:N`.
    pub ordinal: u32,
    /// What the driver calls it.
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory: u64,
}

/// The driver, loaded and initialised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Library {
    version: i32,
}

/// What the driver said.
pub(super) fn words(error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    match text {
        Ok(text) => format!("{:?} ({text})", error.0),
        Err(_) => format!("{:?}", error.0),
    }
}

impl Library {
    /// Loads and initialises the driver; the error says what is missing.
    pub fn load() -> Result<Self, String> {
        // SAFETY: loading runs the initialisers of whatever the system calls its CUDA driver; like every program that uses a GPU, we trust it.
        if !unsafe { sys::is_culib_present() } {
            return Err("there is no CUDA driver on this machine (no libcuda or nvcuda was found)".to_owned());
        }
        let missing: Vec<&str> = SYMBOLS
            .into_iter()
            // SAFETY: the library is there, so `culib` does not panic; a symbol is looked for as an address and not called.
            .filter(|name| unsafe { sys::culib().get::<*const ()>(name.as_bytes()) }.is_err())
            .collect();
        if !missing.is_empty() {
            return Err(format!(
                "the library found as the CUDA driver lacks {}; it is a stub or too old, install the driver of the GPU",
                missing.join(", ")
            ));
        }
        let mut version = 0;
        // SAFETY: the symbol is there, and the pointer is to an int. The one function that may be called before `cuInit`.
        let known = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
        known.map_err(|e| format!("the CUDA driver does not tell its version: {}", words(e)))?;
        if version < OLDEST {
            return Err(format!("the driver offers {}; the kernels need CUDA 11.0 or newer", version_name(version)));
        }
        result::init().map_err(|e| format!("the CUDA driver does not start: {}", words(e)))?;
        Ok(Self { version })
    }

    /// `CUDA 13.0`.
    pub fn version(self) -> String {
        version_name(self.version)
    }

    /// Every GPU the driver shows to this process.
    pub fn cards(self) -> Result<Vec<Card>, String> {
        let count = result::device::get_count().map_err(|e| format!("counting GPUs: {}", words(e)))?;
        (0..u32::try_from(count).unwrap_or(0)).map(|ordinal| self.card(ordinal).map(|(card, _)| card)).collect()
    }

    /// One GPU and the driver's handle of it.
    pub fn card(self, ordinal: u32) -> Result<(Card, sys::CUdevice), String> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let asked = |e| format!("asking GPU {ordinal}: {}", words(e));
        let device = result::device::get(i32::try_from(ordinal).unwrap_or(i32::MAX)).map_err(asked)?;
        // SAFETY: the handle is one that `get` has just given.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) }.map_err(asked);
        let part = |which| attribute(which).map(|value| u32::try_from(value).unwrap_or(0));
        // One byte more than the driver is told of: the name ends, whatever it writes.
        let mut name = [0_u8; 256];
        // SAFETY: so many bytes are there.
        let named = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), 255, device) };
        named.result().map_err(asked)?;
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(0);
        let card = Card {
            ordinal,
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            capability: (part(MAJOR)?, part(MINOR)?),
            // SAFETY: as above.
            memory: unsafe { result::device::total_mem(device) }.map_err(asked)? as u64,
        };
        Ok((card, device))
    }
}

/// The driver writes 12.4 as 12040.
fn version_name(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}
