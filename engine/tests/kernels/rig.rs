//! Runs one launch every way the emulated device can: at each level of vector instructions, on two threads, under the checker
//! with several interleavings, and as native code where there is some. Buffers are exactly as long as the kernel may touch, so that one byte too far is a fault; what
//! a kernel writes starts without a value, so that the checker refuses to read it.

use emulator::exec::{Arg, CheckOptions, ExecError, ExecOptions, Memory, Program, launch as run};
use emulator::simd::Level;
use engine::device::{self, Device, EmulatedDevice, Work};
use engine::kernels::{GemmOut, KernelSpec, KernelText, Units, for_volta};

use crate::arith::Gpu;

/// Little-endian words of a buffer.
pub trait Words {
    fn bytes(&self) -> Vec<u8>;
}

impl Words for Vec<u8> {
    fn bytes(&self) -> Vec<u8> {
        self.clone()
    }
}

impl Words for Vec<u16> {
    fn bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|v| v.to_le_bytes()).collect()
    }
}

impl Words for Vec<u32> {
    fn bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|v| v.to_le_bytes()).collect()
    }
}

pub fn u16s(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
}

pub fn u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// An argument of a launch.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A buffer that is read.
    In(&'a dyn Words),
    /// A buffer that is read and written.
    InOut(&'a dyn Words),
    /// A buffer of so many bytes that is written.
    Out(u32),
    /// The buffer of an earlier argument once more.
    Same(usize),
    U32(u32),
}
pub use Value::{In, InOut, Out, Same, U32};

/// What an output holds that the kernel did not write.
const UNWRITTEN: u8 = 0xa5;

/// Launches the kernel every way; all must agree. Returns the bytes of the `InOut` and `Out` buffers, in order.
pub fn launch(gpu: &Gpu, text: &KernelText, grid: [u32; 3], args: &[Value]) -> Vec<Vec<u8>> {
    let program = compile(gpu, text);
    let plain = ExecOptions::default();
    let mut ways: Vec<(String, ExecOptions)> =
        Level::available().map(|simd| (format!("{simd:?}"), ExecOptions { simd, ..plain })).collect();
    ways.push(("two threads".into(), ExecOptions { threads: 2, ..plain }));
    ways.extend((0..3).map(|seed| (format!("checked, seed {seed}"), checked(seed))));
    let mut results = ways.into_iter().map(|(way, options)| {
        let result = once(&program, text, grid, args, &options);
        (result.unwrap_or_else(|e| panic!("{}, {way}: {e}", text.name)), way)
    });
    let (first, first_way) = results.next().expect("some way to run");
    for (result, way) in results {
        assert!(result == first, "{}: {way} differs from {first_way}", text.name);
    }
    // And the text for older GPUs, where there is one: under the checker, and as native code.
    if let Some(text) = for_volta(text) {
        let result = once(&compile(gpu, &text), &text, grid, args, &checked(3));
        let result = result.unwrap_or_else(|e| panic!("{} for Volta: {e}", text.name));
        assert!(result == first, "{}: the text for Volta differs", text.name);
        let device = EmulatedDevice::with_profile(gpu.profile.clone());
        let (result, work) = on_device(device, &text, grid, args).unwrap_or_else(|e| panic!("{}: {e}", text.name));
        assert!(result == first && (work.native == 1) == has_native(&text), "{}: native code for Volta", text.name);
    }
    for (simd, threads) in Level::available().flat_map(|simd| [(simd, 1), (simd, 3)]) {
        let device = EmulatedDevice::with_profile(gpu.profile.clone()).simd(simd).threads(threads);
        let (result, work) = on_device(device, text, grid, args).unwrap_or_else(|e| panic!("{}: {e}", text.name));
        assert!(result == first, "{}: native code with {simd:?}, {threads} threads differs", text.name);
        assert_eq!(work.native == 1, has_native(text), "{}: native code", text.name);
    }
    first
}

/// Whether launches as the engine makes them run as native code.
fn has_native(text: &KernelText) -> bool {
    match &text.spec {
        Some(KernelSpec::Gemm(spec)) => {
            spec.units == Units::Special || !matches!(spec.out, GemmOut::Partial | GemmOut::Stream)
        }
        Some(_) => true,
        None => false,
    }
}

/// Launches the kernel on a device. Returns the bytes of the `InOut` and `Out` buffers, in order, and what the device did.
pub fn on_device(
    mut device: EmulatedDevice,
    text: &KernelText,
    grid: [u32; 3],
    args: &[Value],
) -> engine::Result<(Vec<Vec<u8>>, Work)> {
    let kernel = device.register(text)?;
    let (mut values, mut written) = (Vec::new(), Vec::new());
    for arg in args {
        let bytes = match *arg {
            In(words) | InOut(words) => words.bytes(),
            Out(bytes) => vec![UNWRITTEN; bytes as usize],
            Same(index) => {
                values.push(values[index]);
                continue;
            }
            U32(v) => {
                values.push(device::Arg::U32(v));
                continue;
            }
        };
        let buffer = device.alloc(bytes.len() as u64)?;
        device.upload(buffer.address, &bytes)?;
        if matches!(arg, InOut(_) | Out(_)) {
            written.push((buffer.address, bytes.len()));
        }
        values.push(buffer.arg());
    }
    device.launch(kernel, grid, &values)?;
    let mut read = |(address, len)| {
        let mut bytes = vec![0; len];
        device.download(address, &mut bytes).map(|()| bytes)
    };
    let results = written.into_iter().map(&mut read).collect::<engine::Result<_>>()?;
    Ok((results, device.work()))
}

/// What the checker says against the kernel, if anything.
pub fn objection(gpu: &Gpu, text: &KernelText, grid: [u32; 3], args: &[Value]) -> Option<ExecError> {
    once(&compile(gpu, text), text, grid, args, &checked(0)).err()
}

fn compile(gpu: &Gpu, text: &KernelText) -> Program {
    let module = ptx::parse(&text.ptx).unwrap_or_else(|e| panic!("{}: {e}", text.name));
    Program::compile(&module, &text.name, gpu.profile).unwrap_or_else(|e| panic!("{e}"))
}

fn checked(seed: u64) -> ExecOptions {
    ExecOptions { check: Some(CheckOptions { seed }), ..ExecOptions::default() }
}

fn once(
    program: &Program,
    text: &KernelText,
    grid: [u32; 3],
    args: &[Value],
    options: &ExecOptions,
) -> Result<Vec<Vec<u8>>, ExecError> {
    let mut memory = Memory::new();
    let (mut values, mut written): (Vec<Arg>, Vec<(u64, usize)>) = (Vec::new(), Vec::new());
    for arg in args {
        let bytes = match *arg {
            In(words) | InOut(words) => words.bytes(),
            Out(bytes) => vec![UNWRITTEN; bytes as usize],
            Same(index) => {
                values.push(values[index]);
                continue;
            }
            U32(v) => {
                values.push(Arg::U32(v));
                continue;
            }
        };
        let address = memory.alloc(bytes.len() as u64).expect("memory for a test");
        // Under the checker an output has no value at first (it reads as zero on the host): what a kernel leaves unwritten
        // differs between the ways, and a kernel that reads it is found out.
        if options.check.is_none() || !matches!(arg, Out(_)) {
            memory.upload(address, &bytes).expect("the buffer is as long as its bytes");
        }
        if matches!(arg, InOut(_) | Out(_)) {
            written.push((address, bytes.len()));
        }
        values.push(Arg::U64(address));
    }
    run(program, grid, text.block, &values, &memory, options)?;
    let read = |(address, len)| {
        let mut bytes = vec![0; len];
        memory.download(address, &mut bytes).expect("the buffer is still there");
        bytes
    };
    Ok(written.into_iter().map(read).collect())
}
