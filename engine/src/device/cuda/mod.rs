//! A GPU as a device: the CUDA driver, loaded when it is asked for, compiles and runs the kernels' PTX. No toolkit is needed.
//!
//! The one place that touches CUDA, and with `library` and `context` one of the few with `unsafe`. Above it a GPU is a [`Device`] like
//! the emulated one: the same texts pass the same parser and lint, the same launches run in the same order, on one stream. Work is never
//! captured into graphs.
//!
//! What differs: an emulated device checks every access of a kernel; here only the addresses of arguments are known to be ours. And a GPU
//! runs behind the host, so a kernel that fails is told of by a later call.
//!
//! # Bits
//! Those of the GPU. That they are the profile's is what `lastbit conformance --device cuda` checks, on that card.
#![allow(unsafe_code, reason = "the driver is a C library; each use states why it is sound")]

mod context;
mod library;

use emulator::profile::{Profile, Vendor};
use ptx::ast::Type;

use super::arithmetic::arithmetic;
use super::{Arg, Buffer, Device, DeviceInfo, Gpu, KernelId, Prepared, prepare, prepare_probe};
use crate::error::{Error, Result};
use crate::kernels::KernelText;
use context::{Context, Function, Value};
pub use library::Card;
use library::Library;

/// The oldest generation that runs the kernels: the target in their header.
const OLDEST_SM: u32 = 80;

struct Kernel {
    sha256: [u8; 32],
    name: String,
    params: Vec<Type>,
    block: [u32; 3],
    function: Function,
}

/// A GPU behind the CUDA driver.
pub struct CudaDevice {
    profile: &'static Profile,
    card: Card,
    driver: String,
    context: Context,
    kernels: Vec<Kernel>,
}

/// The driver and the GPUs it shows to this process.
///
/// # Errors
/// [`Error::NoCuda`]: what is missing.
pub fn cards() -> Result<(String, Vec<Card>)> {
    let look = || {
        let library = Library::load()?;
        Ok((library.version(), library.cards()?))
    };
    look().map_err(|why| Error::NoCuda { why })
}

impl Card {
    /// The profile whose arithmetic this card should have.
    ///
    /// # Errors
    /// [`Error::NoCuda`]: no kernel runs there, or no profile is known for its compute capability.
    pub fn profile(&self) -> Result<&'static Profile> {
        let (major, minor) = self.capability;
        let (name, card) = (format!("sm_{major}{minor}"), &self.name);
        let runs = |p: &&Profile| p.vendor == Vendor::Nvidia && p.sm >= OLDEST_SM;
        let known = || Profile::all().iter().filter(runs).map(|p| p.name).collect::<Vec<_>>().join(", ");
        let why = match Profile::by_name(&name) {
            Some(profile) if runs(&profile) => return Ok(profile),
            Some(_) => format!("{card} is {name}; the kernels run on {}", known()),
            None => format!("{card} is {name}, whose arithmetic no profile describes; described are {}", known()),
        };
        Err(Error::NoCuda { why })
    }
}

impl CudaDevice {
    /// GPU number `ordinal` of those the driver shows.
    ///
    /// # Errors
    /// [`Error::NoCuda`]: no driver, a stub or an old one, no such GPU, or one whose arithmetic no profile describes.
    pub fn open(ordinal: u32) -> Result<Self> {
        let no = |why| Error::NoCuda { why };
        let library = Library::load().map_err(no)?;
        let count = library.cards().map_err(no)?.len();
        if ordinal as usize >= count {
            let there = match count {
                0 => "the CUDA driver shows no GPU".to_owned(),
                1 => format!("there is no GPU {ordinal}; the CUDA driver shows one, number 0"),
                _ => format!("there is no GPU {ordinal}; the CUDA driver shows numbers 0 to {}", count - 1),
            };
            return Err(no(there));
        }
        let (card, device) = library.card(ordinal).map_err(no)?;
        let profile = card.profile()?;
        let context =
            Context::open(device).map_err(|e| no(format!("making a context on GPU {ordinal} ({}): {e}", card.name)))?;
        Ok(Self { profile, card, driver: library.version(), context, kernels: Vec::new() })
    }

    fn keep(&mut self, kernel: &KernelText, prepared: &Prepared) -> Result<KernelId> {
        if let Some(known) = self.kernels.iter().position(|k| k.sha256 == prepared.sha256 && k.block == kernel.block) {
            return Ok(KernelId(known));
        }
        // A prepared text has exactly one kernel.
        let params = prepared.module.kernels.iter().flat_map(|k| &k.params).map(|p| p.ty).collect();
        let loaded = self.context.load(&kernel.ptx, &kernel.name);
        let function = loaded.map_err(|e| self.failed(&format!("compiling `{}`", kernel.name), e))?;
        let (sha256, name, block) = (prepared.sha256, kernel.name.clone(), kernel.block);
        self.kernels.push(Kernel { sha256, name, params, block, function });
        Ok(KernelId(self.kernels.len() - 1))
    }

    fn failed(&self, doing: &str, detail: String) -> Error {
        let device = format!("cuda:{} ({})", self.card.ordinal, self.card.name);
        Error::Device { device, doing: doing.to_owned(), detail }
    }
}

impl Device for CudaDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            kind: "cuda",
            profile: self.profile.name.to_owned(),
            description: arithmetic(self.profile),
            gpu: Some(Gpu {
                model: self.card.name.clone(),
                driver: self.driver.clone(),
                capability: self.card.capability,
            }),
        }
    }

    fn register(&mut self, kernel: &KernelText) -> Result<KernelId> {
        self.keep(kernel, &prepare(kernel)?)
    }

    fn register_probe(&mut self, kernel: &KernelText) -> Result<KernelId> {
        self.keep(kernel, &prepare_probe(kernel)?)
    }

    fn alloc(&mut self, bytes: u64) -> Result<Buffer> {
        let address = self.context.alloc(bytes).map_err(|e| self.failed("allocating", e))?;
        Ok(Buffer { address, bytes })
    }

    fn free(&mut self, buffer: Buffer) -> Result<()> {
        self.context.free(buffer.address).map_err(|e| self.failed("freeing", e))
    }

    fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        self.context.upload(address, bytes).map_err(|e| self.failed("uploading", e))
    }

    fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.context.download(address, bytes).map_err(|e| self.failed("downloading", e))
    }

    fn launch(&mut self, kernel: KernelId, grid: [u32; 3], args: &[Arg]) -> Result<()> {
        let Some(k) = self.kernels.get(kernel.0) else {
            return Err(self.failed("launching", format!("kernel {} was never registered here", kernel.0)));
        };
        let doing = format!("launching `{}`", k.name);
        let value = |(arg, ty): (&Arg, &Type)| match (*arg, ty) {
            (Arg::Ptr(address), Type::U64) => Some(Value::Address(address)),
            (Arg::U32(value), Type::U32) => Some(Value::U32(value)),
            _ => None,
        };
        let values: Option<Vec<Value>> = args.iter().zip(&k.params).map(value).collect();
        let Some(values) = values.filter(|_| args.len() == k.params.len()) else {
            let detail =
                format!("the arguments are not those of the parameters ({} of {})", args.len(), k.params.len());
            return Err(self.failed(&doing, detail));
        };
        // SAFETY: each value was matched with the parameter of its type, and there is one for each.
        let launched = unsafe { self.context.launch((k.function, &k.name), grid, k.block, &values) };
        launched.map_err(|e| self.failed(&doing, e))
    }
}
