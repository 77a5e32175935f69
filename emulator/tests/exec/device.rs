//! What the tests share: a device with typed buffers, and ways to run a kernel on it.

use emulator::exec::{Arg, ExecError, ExecOptions, LaunchStats, Memory, Program, launch};
use emulator::profile::Profile;
use emulator::simd::Level;
use ptx::ast::{Kernel, Module};

/// The profile that tests use when it does not matter which.
pub fn hopper() -> &'static Profile {
    Profile::by_name("sm_90").expect("the profile exists")
}

/// Compiles a kernel on its own.
pub fn compile(kernel: Kernel) -> Program {
    let name = kernel.name.clone();
    Program::compile(&Module::new(vec![kernel]), &name, hopper()).unwrap_or_else(|e| panic!("{e}"))
}

/// Global memory with buffers of words.
pub struct Device {
    pub memory: Memory,
    pub options: ExecOptions,
}

impl Device {
    pub fn new() -> Self {
        Device { memory: Memory::new(), options: ExecOptions::default() }
    }

    pub fn upload(&mut self, words: &[u32]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let at = self.memory.alloc(bytes.len() as u64).unwrap();
        self.memory.upload(at, &bytes).unwrap();
        at
    }

    pub fn zeros(&mut self, words: usize) -> u64 {
        self.memory.alloc_zeroed(4 * words as u64).unwrap()
    }

    pub fn download(&self, at: u64, words: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * words];
        self.memory.download(at, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn launch(&self, program: &Program, grid: u32, block: u32, args: &[Arg]) -> Result<LaunchStats, ExecError> {
        launch(program, [grid, 1, 1], [block, 1, 1], args, &self.memory, &self.options)
    }
}

/// Every way to run a launch whose bits must not differ.
pub fn all_options() -> Vec<ExecOptions> {
    let mut all = Vec::new();
    for simd in Level::available() {
        for threads in [1, 2, 5] {
            all.push(ExecOptions { threads, simd, ..ExecOptions::default() });
        }
    }
    all
}
