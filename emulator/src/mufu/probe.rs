//! Probes: PTX kernels that write every output of a special function, to be run on a card.
//!
//! Each kernel evaluates one `.approx` instruction for consecutive bit patterns: `probe_rcp(out, start, count)` writes the
//! result for the operand with bits `start + i` to `out[i]`. One module has them all, for the functions with and without a
//! model, with `.ftz` and without. A [`Probe`] is a launch over a binade, whose output file [`fit`](super::fit) reads.
//!
//! The kernels follow every rule of the lint but the one against special functions that no profile models
//! (`LintOptions::allow_any_approx`): finding those out is what they are for.

use ptx::ast::{Approx, Kernel, Module, Op, Type};
use ptx::builder::{F32, KernelBuilder, Register as _, Source as _};

use super::Function;
use super::fit::{BINADE, Dump, NAMED};
use crate::exec::{Arg, ExecError, ExecOptions, LaunchStats, Memory, Program, launch};
use crate::profile::Profile;
use crate::{Error, open::Open};

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// A dump to be made: a function over the binade that begins with the operand `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The stem of its file.
    pub stem: &'static str,
    /// The function.
    pub function: Function,
    /// Bits of the first operand.
    pub start: u32,
}

impl Probe {
    /// The dumps from which a profile is fitted.
    #[must_use]
    pub fn all() -> Vec<Self> {
        NAMED.iter().map(|&(stem, function, start)| Self { stem, function, start }).collect()
    }

    /// The kernel it launches.
    #[must_use]
    pub fn kernel(&self) -> String {
        kernel_name(self.function, true)
    }

    /// The text of that kernel alone, for a device that takes one at a time.
    #[must_use]
    pub fn text(&self) -> String {
        let name = self.kernel();
        let kernels = module().kernels.into_iter().filter(|k| k.name == name).collect();
        ptx::print(&Module::new(kernels))
    }

    /// The grid of its launch.
    #[must_use]
    pub const fn grid(&self) -> u32 {
        BINADE as u32 / BLOCK
    }

    /// Runs the probe's kernel on the emulated device.
    ///
    /// # Errors
    /// [`ExecError::Model`] for a function without a model; other errors would be faults of the kernel.
    pub fn run_emulated(&self, profile: &Profile, options: &ExecOptions) -> Result<(Dump, LaunchStats), ExecError> {
        let program = Program::compile(&module(), &self.kernel(), profile)?;
        let mut memory = Memory::new();
        let out = memory.alloc(4 * BINADE as u64)?;
        let args = [Arg::U64(out), Arg::U32(self.start), Arg::U32(BINADE as u32)];
        let stats = launch(&program, [self.grid(), 1, 1], [BLOCK, 1, 1], &args, &memory, options)?;
        let mut bytes = vec![0; 4 * BINADE];
        memory.download(out, &mut bytes)?;
        // Both the length and the stem are this module's own.
        let dump = Dump::from_results(self.stem, &bytes).expect("a binade of results");
        Ok((dump, stats))
    }
}

/// The functions the module has kernels for, with the instruction and whether there is a form with `.ftz`.
const KERNELS: [(Function, Approx, bool); 8] = [
    (Function::Rcp, Approx::Rcp, true),
    (Function::Rsq, Approx::Rsqrt, true),
    (Function::Ex2, Approx::Ex2, true),
    (Function::Lg2, Approx::Lg2, true),
    (Function::Sin, Approx::Sin, true),
    (Function::Cos, Approx::Cos, true),
    (Function::Sqrt, Approx::Sqrt, true),
    (Function::Tanh, Approx::Tanh, false),
];

fn kernel_name(function: Function, ftz: bool) -> String {
    format!("probe_{function}{}", if ftz { "" } else { "_subnormals" })
}

/// The module: a kernel for each function, and where it makes a difference one without `.ftz`.
#[must_use]
pub fn module() -> Module {
    let mut kernels = Vec::new();
    for (function, f, has_ftz) in KERNELS {
        if has_ftz {
            kernels.push(kernel(&kernel_name(function, true), f, true));
        }
        kernels.push(kernel(&kernel_name(function, false), f, false));
    }
    Module::new(kernels)
}

/// The module as PTX text.
#[must_use]
pub fn text() -> String {
    ptx::print(&module())
}

/// `out[i] = f(bits start + i)` for `i < count`, one operand a thread.
fn kernel(name: &str, f: Approx, ftz: bool) -> Kernel {
    let mut k = KernelBuilder::new(name);
    let (out, start, count) = (k.param_ptr("out"), k.param_u32("start"), k.param_u32("count"));
    let (cta, ntid, tid) = (k.ctaid_x(), k.ntid_x(), k.tid_x());
    let i = k.mad_lo_u32(cta, ntid, tid);
    let inside = k.setp_lt_u32(i, count);
    k.if_(inside, |k| {
        let bits = k.add_u32(start, i);
        let x = k.f32_of_bits(bits);
        let y: F32 = k.fresh();
        k.emit(Op::Approx { f, ty: Type::F32, ftz, d: y.reg(), a: x.operand() });
        let to = k.mad_wide_u32(i, 4, out);
        k.st_global(to, 0, y);
    });
    k.finish()
}

/// How to run the module on a card: the exact launches, and what to do with the files.
#[must_use]
pub fn instructions(ptx_file: &str) -> String {
    use core::fmt::Write;
    let mut text = String::new();
    let bytes = 4 * BINADE;
    let count = BINADE;
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "To run the probes on a card, with any program that uses the CUDA driver API (no toolkit is needed):\n\
         1. cuModuleLoadData of {ptx_file}, as a NUL-terminated string. The driver compiles it; pass no options.\n\
         2. cuMemAlloc of {bytes} bytes: `out`.\n\
         3. For each row below cuModuleGetFunction and cuLaunchKernel, shared memory 0, with the parameters\n   \
            (u64 out, u32 start, u32 count = {count}); then cuCtxSynchronize, cuMemcpyDtoH of {bytes} bytes, and write\n   \
            them unchanged to the file of that name.\n\n\
         {:<20} {:<12} {:<10} {:>7} {:>6}\n",
        "file", "kernel", "start", "grid.x", "block"
    );
    for probe in Probe::all() {
        let file = format!("{}.bits", probe.stem);
        let _ =
            writeln!(text, "{file:<20} {:<12} 0x{:08x} {:>7} {BLOCK:>6}", probe.kernel(), probe.start, probe.grid());
    }
    let _ = write!(
        text,
        "\n4. `lastbit mufu fit FOLDER` with the folder of these files fits a profile and says whether it is the one built in.\n\n\
         Functions without a model have kernels too. What would settle them:\n"
    );
    for function in [Function::Sqrt, Function::Tanh] {
        if let Err(Error::UnsupportedMufu { probe, .. }) = function.model() {
            let _ = writeln!(text, "- {}: {probe}.", kernel_name(function, function == Function::Sqrt));
        }
    }
    let _ = writeln!(
        text,
        "- {}: {}.\n- probe_rcp_subnormals, probe_rsq_subnormals, probe_lg2_subnormals: start 0x00000000; \
         probe_ex2_subnormals: start 0xc2800000. They show what the forms without .ftz do.",
        kernel_name(Function::Sqrt, false),
        Open::SqrtApprox.probe()
    );
    text
}
