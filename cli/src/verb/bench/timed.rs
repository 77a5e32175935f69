//! A device that takes the time of what it does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use engine::device::{Arg, Buffer, Device, DeviceInfo, EmulatedDevice, KernelId};
use engine::kernels::KernelText;

/// Calls and seconds, by kernel and by copy.
#[derive(Clone, Default)]
pub struct Times(Arc<Mutex<BTreeMap<String, (u64, f64)>>>);

impl Times {
    fn add(&self, what: &str, since: Instant) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = times.entry(what.to_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + since.elapsed().as_secs_f64());
    }

    /// All so far, which is forgotten.
    pub fn take(&self) -> BTreeMap<String, (u64, f64)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An emulated device whose launches and copies are timed.
pub struct Timed {
    device: EmulatedDevice,
    /// Names of kernels by their number.
    names: BTreeMap<KernelId, String>,
    times: Times,
}

impl Timed {
    pub fn new(device: EmulatedDevice) -> Self {
        Self { device, names: BTreeMap::new(), times: Times::default() }
    }

    pub fn times(&self) -> Times {
        self.times.clone()
    }
}

impl Device for Timed {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn register(&mut self, kernel: &KernelText) -> engine::Result<KernelId> {
        let id = self.device.register(kernel)?;
        self.names.insert(id, kernel.name.clone());
        Ok(id)
    }

    fn register_probe(&mut self, kernel: &KernelText) -> engine::Result<KernelId> {
        let id = self.device.register_probe(kernel)?;
        self.names.insert(id, kernel.name.clone());
        Ok(id)
    }

    fn alloc(&mut self, bytes: u64) -> engine::Result<Buffer> {
        let start = Instant::now();
        let buffer = self.device.alloc(bytes);
        self.times.add("(allocation)", start);
        buffer
    }

    fn free(&mut self, buffer: Buffer) -> engine::Result<()> {
        self.device.free(buffer)
    }

    fn upload(&mut self, address: u64, bytes: &[u8]) -> engine::Result<()> {
        let start = Instant::now();
        let done = self.device.upload(address, bytes);
        self.times.add("(upload)", start);
        done
    }

    fn download(&mut self, address: u64, bytes: &mut [u8]) -> engine::Result<()> {
        let start = Instant::now();
        let done = self.device.download(address, bytes);
        self.times.add("(download)", start);
        done
    }

    fn launch(&mut self, kernel: KernelId, grid: [u32; 3], args: &[Arg]) -> engine::Result<()> {
        let start = Instant::now();
        let done = self.device.launch(kernel, grid, args);
        self.times.add(self.names.get(&kernel).map_or("?", String::as_str), start);
        done
    }
}
