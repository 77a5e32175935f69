//! The emulated GPU as a device.
//!
//! Launches of this engine's own kernels run as [`native`] code, whatever else is interpreted; the bits are the same.

mod native;

use emulator::exec::{self, CheckOptions, ExecOptions, Memory, Program};
use emulator::profile::Profile;
use emulator::simd::Level;

use super::arithmetic::arithmetic;
use super::{Arg, Buffer, Device, DeviceInfo, KernelId, Prepared, prepare, prepare_probe};
use crate::error::{Error, Result};
use crate::kernels::KernelText;
use native::{Call, Native, Packs};

struct Kernel {
    sha256: [u8; 32],
    program: Program,
    block: [u32; 3],
    /// Host code for exactly this text.
    native: Option<Box<dyn Native>>,
}

/// An emulated GPU of one hardware profile.
///
/// # Bits
/// Neither threads nor vector instructions nor the checker nor native code change a bit of any result.
pub struct EmulatedDevice {
    profile: Profile,
    options: ExecOptions,
    memory: Memory,
    kernels: Vec<Kernel>,
    /// Launches may run as native code.
    native: bool,
    packs: Packs,
    work: Work,
}

/// What a device has done so far; the same on any number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Kernels launched.
    pub launches: u64,
    /// Those that ran as native code.
    pub native: u64,
    /// Warp instructions executed by the others.
    pub instructions: u64,
    /// Matrix instructions among them.
    pub mmas: u64,
}

impl EmulatedDevice {
    /// A device of the named profile (`sm_90`), on one thread, with the fastest vector instructions of this machine.
    ///
    /// # Errors
    /// [`Error::UnknownProfile`].
    pub fn new(profile: &str) -> Result<Self> {
        let known = || Profile::all().iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        let profile = Profile::by_name(profile)
            .ok_or_else(|| Error::UnknownProfile { name: profile.to_owned(), known: known() })?;
        Ok(Self::with_profile(profile.clone()))
    }

    /// A device of a profile whose switches may have been changed.
    pub fn with_profile(profile: Profile) -> Self {
        Self {
            profile,
            options: ExecOptions::default(),
            memory: Memory::new(),
            kernels: Vec::new(),
            native: true,
            packs: Packs::default(),
            work: Work::default(),
        }
    }

    /// Spreads the blocks of a launch over this many threads.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads.max(1);
        self
    }

    /// Uses these vector instructions.
    #[must_use]
    pub fn simd(mut self, level: Level) -> Self {
        self.options.simd = level;
        self
    }

    /// Interprets every launch: nothing runs as native code.
    #[must_use]
    pub fn interpreted(mut self) -> Self {
        self.native = false;
        self
    }

    /// Looks for races and missing waits, with this seed for the order of blocks and warps. Slow; everything is interpreted.
    #[must_use]
    pub fn checked(mut self, seed: u64) -> Self {
        self.options.check = Some(CheckOptions { seed });
        self
    }

    /// What it has done so far.
    pub fn work(&self) -> Work {
        self.work
    }

    fn keep(&mut self, kernel: &KernelText, prepared: &Prepared) -> Result<KernelId> {
        if let Some(known) = self.kernels.iter().position(|k| k.sha256 == prepared.sha256 && k.block == kernel.block) {
            return Ok(KernelId(known));
        }
        let program = Program::compile(&prepared.module, &kernel.name, &self.profile)
            .map_err(|e| self.failed(&format!("compiling `{}`", kernel.name), e))?;
        let native = native::of(kernel, &prepared.sha256, &self.profile);
        self.kernels.push(Kernel { sha256: prepared.sha256, program, block: kernel.block, native });
        Ok(KernelId(self.kernels.len() - 1))
    }

    fn failed(&self, doing: &str, error: impl std::fmt::Display) -> Error {
        Error::Device {
            device: format!("emulated {}", self.profile.name),
            doing: doing.to_owned(),
            detail: error.to_string(),
        }
    }
}

impl Device for EmulatedDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            kind: "emulated",
            profile: self.profile.name.to_owned(),
            description: arithmetic(&self.profile),
            gpu: None,
        }
    }

    fn register(&mut self, kernel: &KernelText) -> Result<KernelId> {
        self.keep(kernel, &prepare(kernel)?)
    }

    fn register_probe(&mut self, kernel: &KernelText) -> Result<KernelId> {
        self.keep(kernel, &prepare_probe(kernel)?)
    }

    fn alloc(&mut self, bytes: u64) -> Result<Buffer> {
        let address = self.memory.alloc_zeroed(bytes).map_err(|e| self.failed("allocating", e))?;
        Ok(Buffer { address, bytes })
    }

    fn free(&mut self, buffer: Buffer) -> Result<()> {
        self.memory.free(buffer.address).map_err(|e| self.failed("freeing", e))?;
        self.packs.forget_freed(&self.memory);
        Ok(())
    }

    fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        self.memory.upload(address, bytes).map_err(|e| self.failed("uploading", e))
    }

    fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.memory.download(address, bytes).map_err(|e| self.failed("downloading", e))
    }

    fn launch(&mut self, kernel: KernelId, grid: [u32; 3], args: &[Arg]) -> Result<()> {
        let Some(k) = self.kernels.get(kernel.0) else {
            return Err(self.failed("launching", format!("kernel {} was never registered here", kernel.0)));
        };
        if let Some(native) = &k.native
            && self.native
            && self.options.check.is_none()
        {
            let (memory, options) = (&self.memory, &self.options);
            if native.launch(&mut Call { memory, packs: &mut self.packs, options, grid, args }).is_ok() {
                self.work.launches += 1;
                self.work.native += 1;
                return Ok(());
            }
        }
        let args: Vec<exec::Arg> = args
            .iter()
            .map(|a| match a {
                Arg::Ptr(address) => exec::Arg::U64(*address),
                Arg::U32(value) => exec::Arg::U32(*value),
            })
            .collect();
        let stats = exec::launch(&k.program, grid, k.block, &args, &self.memory, &self.options)
            .map_err(|e| self.failed(&format!("running `{}`", k.program.name()), e))?;
        self.work.launches += 1;
        self.work.instructions += stats.instructions;
        self.work.mmas += stats.mmas;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::AddSpec;

    #[test]
    fn an_unknown_profile_is_refused_by_name() {
        let error = EmulatedDevice::new("sm_91").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("sm_91") && error.contains("sm_90"), "{error}");
    }

    #[test]
    fn one_text_is_one_kernel_and_a_foreign_one_is_refused() {
        let mut device = EmulatedDevice::new("sm_90").unwrap();
        let add = AddSpec { width: 16 };
        let id = device.register(&add.build()).unwrap();
        assert_eq!(device.register(&add.build()).unwrap(), id);
        let x = device.alloc(32).unwrap();
        let args = [x.arg(), x.arg(), x.arg(), Arg::U32(1)];
        device.launch(id, add.grid(1), &args).unwrap();
        assert_eq!(device.work().launches, 1);
        assert!(matches!(device.launch(KernelId(9), [1; 3], &args), Err(Error::Device { .. })));
        assert!(matches!(device.launch(id, add.grid(1), &args[..3]), Err(Error::Device { .. })));
        device.free(x).unwrap();
        assert!(matches!(device.launch(id, add.grid(1), &args), Err(Error::Device { .. })));
    }
}
