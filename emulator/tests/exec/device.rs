//! What the tests share: a device with typed buffers, and ways to run a kernel on it.

use emulator::exec::{Arg, CheckOptions, ExecError, ExecOptions, LaunchStats, Memory, Program, launch};
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

/// Compiles the text of one kernel, header left out.
pub fn compile_text(text: &str) -> Program {
    compile_for(".version 7.0\n.target sm_80", hopper(), text)
}

/// The same with a header, for a profile.
pub fn compile_for(header: &str, profile: &Profile, text: &str) -> Program {
    let text = format!("{header}\n.address_size 64\n{text}");
    let module = ptx::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Program::compile(&module, &module.kernels[0].name, profile).unwrap_or_else(|e| panic!("{e}\n{text}"))
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

    pub fn with(options: ExecOptions) -> Self {
        Device { memory: Memory::new(), options }
    }

    /// A device that checks, with this seed.
    pub fn checking(seed: u64) -> Self {
        Device::with(ExecOptions { check: Some(CheckOptions { seed }), ..ExecOptions::default() })
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
    for seed in 0..3 {
        all.push(ExecOptions { check: Some(CheckOptions { seed }), ..ExecOptions::default() });
    }
    all
}

/// A small, fast generator for test inputs (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn u32(&mut self) -> u32 {
        self.next() as u32
    }

    /// Values that integer instructions treat specially, and random ones of all lengths.
    pub fn integer(&mut self) -> u64 {
        const SPECIAL: [u64; 18] = [
            0,
            1,
            2,
            15,
            16,
            31,
            32,
            63,
            64,
            0x7fff,
            0x8000,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x7fff_ffff_ffff_ffff,
            0x8000_0000_0000_0000,
            0xffff_ffff_ffff_ffff,
        ];
        match self.below(3) {
            0 => SPECIAL[self.below(18) as usize],
            1 => self.next() >> self.below(64),
            _ => self.next(),
        }
    }
}
