//! What the driver does, behind the C interface.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use emulator::exec::{Arg, ExecOptions, Memory, Program, launch};
use emulator::profile::Profile;

/// Status codes of the driver interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Status {
    Success = 0,
    InvalidValue = 1,
    OutOfMemory = 2,
    NotInitialized = 3,
    StubLibrary = 34,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidContext = 201,
    NoBinaryForGpu = 209,
    InvalidPtx = 218,
    InvalidHandle = 400,
    NotFound = 500,
    IllegalAddress = 700,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 13] = [
        Self::Success,
        Self::InvalidValue,
        Self::OutOfMemory,
        Self::NotInitialized,
        Self::StubLibrary,
        Self::NoDevice,
        Self::InvalidDevice,
        Self::InvalidContext,
        Self::NoBinaryForGpu,
        Self::InvalidPtx,
        Self::InvalidHandle,
        Self::NotFound,
        Self::IllegalAddress,
    ];

    /// A text for people, ending in a zero byte.
    pub const fn text(self) -> &'static std::ffi::CStr {
        match self {
            Self::Success => c"no error",
            Self::InvalidValue => c"invalid argument",
            Self::OutOfMemory => c"out of memory",
            Self::NotInitialized => c"initialization error",
            Self::StubLibrary => c"CUDA driver is a stub library",
            Self::NoDevice => c"no CUDA-capable device is detected",
            Self::InvalidDevice => c"invalid device ordinal",
            Self::InvalidContext => c"invalid device context",
            Self::NoBinaryForGpu => c"no kernel image is available for execution on the device",
            Self::InvalidPtx => c"a PTX JIT compilation failed",
            Self::InvalidHandle => c"invalid resource handle",
            Self::NotFound => c"named symbol not found",
            Self::IllegalAddress => c"an illegal memory access was encountered",
        }
    }
}

/// How a complaint begins about what was not given back before the context was.
pub const LEFT: &str = "left behind were";

/// What is wrong with the driver, by the value of `LASTBIT_LOOPBACK_FAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `no-device`: it starts and finds no GPU.
    NoDevice,
    /// `old`: it offers CUDA 10.2.
    Old,
    /// `stub`: it does not start, as the stub library of a toolkit.
    Stub,
    /// `memory`: it has no memory to give.
    Memory,
    /// `ptx`: its compiler refuses every kernel.
    Ptx,
    /// `launch`: every launch is refused.
    Launch,
    /// `kernel`: every kernel fails while it runs.
    Kernel,
    /// `bit`: the first byte of each download has its lowest bit turned, as on a card that computes something else.
    Bit,
}

impl Fault {
    fn of_environment() -> Option<Self> {
        let name = std::env::var("LASTBIT_LOOPBACK_FAULT").ok()?;
        Some(match name.as_str() {
            "no-device" => Self::NoDevice,
            "old" => Self::Old,
            "stub" => Self::Stub,
            "memory" => Self::Memory,
            "ptx" => Self::Ptx,
            "launch" => Self::Launch,
            "kernel" => Self::Kernel,
            "bit" => Self::Bit,
            "" => return None,
            other => panic!("LASTBIT_LOOPBACK_FAULT={other}: no such fault"),
        })
    }
}

/// Host memory that a download goes to when its stream is waited for.
pub struct Target {
    address: usize,
    bytes: usize,
}

/// Something put on a stream.
enum Task {
    Zero { address: u64, bytes: u64, value: u8 },
    Upload { address: u64, bytes: Vec<u8> },
    Download { address: u64, to: Target },
    Launch { function: usize, grid: [u32; 3], block: [u32; 3], args: Vec<Arg> },
}

#[allow(unsafe_code, reason = "the interface passes addresses")]
impl Target {
    /// `bytes` bytes at `to`.
    ///
    /// # Safety
    /// They stay valid and untouched until the stream has been waited for: the driver interface asks this of its callers.
    pub unsafe fn new(to: *mut u8, bytes: usize) -> Self {
        Self { address: to.expose_provenance(), bytes }
    }

    fn write(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(self.address);
        // SAFETY: whoever made the target promised that so many bytes are valid there until now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, self.bytes) };
    }
}

/// The one driver of the process: one device, one context, any number of streams that run in the order of their calls.
pub struct Driver {
    initialised: bool,
    /// How often the context was asked for and not given back.
    retained: usize,
    profile: &'static Profile,
    fault: Option<Fault>,
    memory: Memory,
    sizes: HashMap<u64, u64>,
    modules: Vec<Option<ptx::ast::Module>>,
    functions: Vec<Program>,
    tasks: Vec<Task>,
    /// A failure of a kernel, which every later call repeats.
    spoiled: Option<Status>,
    options: ExecOptions,
}

type Outcome<T> = Result<T, Status>;

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::new()));

/// The driver, for one call.
pub fn driver() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    fn new() -> Self {
        let sm = std::env::var("LASTBIT_LOOPBACK_SM").unwrap_or_else(|_| "90".to_owned());
        // A card of another compute capability is still shown: what its user makes of it is under test. It runs nothing.
        let profile = Profile::by_name(&format!("sm_{sm}")).unwrap_or(&Profile::all()[0]);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            initialised: false,
            retained: 0,
            profile,
            fault: Fault::of_environment(),
            memory: Memory::new(),
            sizes: HashMap::new(),
            modules: Vec::new(),
            functions: Vec::new(),
            tasks: Vec::new(),
            spoiled: None,
            options: ExecOptions { threads, ..ExecOptions::default() },
        }
    }

    pub fn start(&mut self) -> Outcome<()> {
        match self.fault {
            Some(Fault::Stub) => Err(Status::StubLibrary),
            _ => {
                self.initialised = true;
                Ok(())
            }
        }
    }

    pub fn version(&self) -> i32 {
        if self.fault == Some(Fault::Old) { 10_020 } else { 13_000 }
    }

    pub fn count(&self) -> Outcome<i32> {
        match (self.initialised, self.fault) {
            (false, _) => Err(Status::NotInitialized),
            (true, Some(Fault::NoDevice)) => Ok(0),
            (true, _) => Ok(1),
        }
    }

    /// Compute capability, as the environment says it.
    pub fn capability() -> (i32, i32) {
        let sm = std::env::var("LASTBIT_LOOPBACK_SM").unwrap_or_else(|_| "90".to_owned());
        let sm: i32 = sm.parse().expect("LASTBIT_LOOPBACK_SM is a number, as in sm_90");
        (sm / 10, sm % 10)
    }

    /// Nothing works after a kernel failed.
    fn sound(&self) -> Outcome<()> {
        match (self.initialised, self.spoiled) {
            (false, _) => Err(Status::NotInitialized),
            (true, Some(status)) => Err(status),
            (true, None) => Ok(()),
        }
    }

    /// Parses a module; the error has the text for the log.
    pub fn load(&mut self, text: &str) -> Result<usize, (Status, String)> {
        self.sound().map_err(|status| (status, String::new()))?;
        if self.fault == Some(Fault::Ptx) {
            return Err((Status::InvalidPtx, "ptxas fatal   : Unsupported .version 7.0".to_owned()));
        }
        let module = ptx::parse(text).map_err(|e| (Status::InvalidPtx, e.to_string()))?;
        if module.target > self.profile.sm {
            return Err((Status::NoBinaryForGpu, format!("target sm_{} on {}", module.target, self.profile.name)));
        }
        self.modules.push(Some(module));
        Ok(self.modules.len() - 1)
    }

    pub fn function(&mut self, module: usize, name: &str) -> Outcome<usize> {
        self.sound()?;
        let module = self.modules.get(module).and_then(Option::as_ref).ok_or(Status::InvalidHandle)?;
        module.kernel(name).ok_or(Status::NotFound)?;
        let program = Program::compile(module, name, self.profile).map_err(|_| Status::InvalidPtx)?;
        self.functions.push(program);
        Ok(self.functions.len() - 1)
    }

    pub fn unload(&mut self, module: usize) -> Outcome<()> {
        self.sound()?;
        let slot = self.modules.get_mut(module).ok_or(Status::InvalidHandle)?;
        slot.take().map(|_| ()).ok_or(Status::InvalidHandle)
    }

    /// The context is asked for once more.
    pub fn retain(&mut self) {
        self.retained += 1;
    }

    /// The context is given back; the last time, everything else should be.
    pub fn release(&mut self) {
        self.retained = self.retained.saturating_sub(1);
        if self.retained > 0 {
            return;
        }
        let modules = self.modules.iter().flatten().count();
        if self.spoiled.is_none() && (!self.sizes.is_empty() || modules > 0) {
            eprintln!("loopback driver: {LEFT} {} allocations and {modules} modules", self.sizes.len());
        }
        self.spoiled = None;
    }

    /// Memory with something in it, as a driver's.
    pub fn alloc(&mut self, bytes: u64) -> Outcome<u64> {
        self.sound()?;
        if bytes == 0 {
            return Err(Status::InvalidValue);
        }
        if self.fault == Some(Fault::Memory) {
            return Err(Status::OutOfMemory);
        }
        let address = self.memory.alloc(bytes).map_err(|_| Status::OutOfMemory)?;
        let junk = vec![0xa5; usize::try_from(bytes).map_err(|_| Status::OutOfMemory)?];
        self.memory.upload(address, &junk).map_err(|_| Status::OutOfMemory)?;
        self.sizes.insert(address, bytes);
        Ok(address)
    }

    pub fn free(&mut self, address: u64) -> Outcome<()> {
        self.wait()?;
        self.sizes.remove(&address).ok_or(Status::InvalidValue)?;
        self.memory.free(address).map_err(|_| Status::InvalidValue)
    }

    pub fn zero(&mut self, address: u64, value: u8, bytes: u64) -> Outcome<()> {
        self.put(Task::Zero { address, bytes, value })
    }

    /// Host memory that is not pinned is copied before the call returns.
    pub fn upload(&mut self, address: u64, bytes: Vec<u8>) -> Outcome<()> {
        self.put(Task::Upload { address, bytes })
    }

    pub fn download(&mut self, address: u64, to: Target) -> Outcome<()> {
        self.put(Task::Download { address, to })
    }

    /// Bytes of each parameter of a function.
    pub fn parameters(&self, function: usize) -> Outcome<Vec<u32>> {
        let program = self.functions.get(function).ok_or(Status::InvalidHandle)?;
        Ok(program.params().map(|ty| ty.bytes()).collect())
    }

    pub fn launch(&mut self, function: usize, grid: [u32; 3], block: [u32; 3], args: Vec<Arg>) -> Outcome<()> {
        if self.fault == Some(Fault::Launch) {
            return Err(Status::InvalidValue);
        }
        self.put(Task::Launch { function, grid, block, args })
    }

    fn put(&mut self, task: Task) -> Outcome<()> {
        self.sound()?;
        self.tasks.push(task);
        Ok(())
    }

    /// Does everything that was put on streams.
    pub fn wait(&mut self) -> Outcome<()> {
        self.sound()?;
        for task in std::mem::take(&mut self.tasks) {
            if let Err(why) = self.run(task) {
                eprintln!("loopback driver: {why}");
                self.spoiled = Some(Status::IllegalAddress);
                return Err(Status::IllegalAddress);
            }
        }
        Ok(())
    }

    fn run(&mut self, task: Task) -> Result<(), String> {
        match task {
            Task::Zero { address, bytes, value } => {
                let bytes = vec![value; usize::try_from(bytes).map_err(|e| e.to_string())?];
                self.memory.upload(address, &bytes).map_err(|e| e.to_string())
            }
            Task::Upload { address, bytes } => self.memory.upload(address, &bytes).map_err(|e| e.to_string()),
            Task::Download { address, to } => {
                let mut bytes = vec![0; to.bytes];
                self.memory.download(address, &mut bytes).map_err(|e| e.to_string())?;
                if let (Some(Fault::Bit), Some(first)) = (self.fault, bytes.first_mut()) {
                    *first ^= 1;
                }
                to.write(&bytes);
                Ok(())
            }
            Task::Launch { function, grid, block, args } => {
                if self.fault == Some(Fault::Kernel) {
                    return Err("every kernel fails".to_owned());
                }
                let program = self.functions.get(function).ok_or("no such function")?;
                launch(program, grid, block, &args, &self.memory, &self.options).map(|_| ()).map_err(|e| e.to_string())
            }
        }
    }
}
