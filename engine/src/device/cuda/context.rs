//! One GPU's context: its memory, its kernels, one stream.
//!
//! Everything runs on the one stream, in the order of the calls. Whatever the driver takes from the host, or brings there, is waited for
//! before a call returns, so no borrow outlives it; launches and the zeroing of memory are not waited for.
//!
//! What this module cannot check is a kernel's own accesses: on the emulated device each is checked, on a GPU none is.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

use cudarc::driver::{DriverError, result, sys};

use super::library::words;

// A `.u32` parameter is read from the first four bytes of a 64-bit word.
const _: () = assert!(cfg!(target_endian = "little"));

/// Bytes kept of what the driver's compiler says about a kernel.
const LOG_BYTES: usize = 8192;

/// A kernel of this context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function(usize);

/// A value for a parameter, of the width that the parameter has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    U32(u32),
    Address(u64),
}

/// A context on a GPU. The handles are the driver's; they live as long as this does, and nothing else has them.
pub(super) struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    modules: Vec<sys::CUmodule>,
    functions: Vec<sys::CUfunction>,
    /// Bytes asked for, by address.
    allocations: BTreeMap<u64, u64>,
    /// The kernel launched last, and how many since the host last waited.
    running: Option<(String, u32)>,
}

// SAFETY: a context may be used from any thread on which it is current (CUDA driver API, context management), and every method makes it
// current first. Methods that change anything take `&mut self`, so no two threads are in one at once.
unsafe impl Send for Context {}

impl Context {
    /// The context of a device, with a stream of its own.
    pub fn open(device: sys::CUdevice) -> Result<Self, String> {
        // SAFETY: the device handle comes from the driver; `release` follows when this is dropped, or below.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(words)?;
        // SAFETY: the context was retained just now.
        let stream = unsafe { result::ctx::set_current(context) }
            .and_then(|()| result::stream::create(result::stream::StreamKind::NonBlocking));
        match stream {
            Ok(stream) => Ok(Self {
                device,
                context,
                stream,
                modules: Vec::new(),
                functions: Vec::new(),
                allocations: BTreeMap::new(),
                running: None,
            }),
            Err(e) => {
                // SAFETY: retained above, given back once.
                let _ = unsafe { result::primary_ctx::release(device) };
                Err(words(e))
            }
        }
    }

    /// Makes the context current on this thread, which every call to the driver needs.
    fn enter(&self) -> Result<(), String> {
        // SAFETY: the context is retained until this is dropped.
        unsafe { result::ctx::set_current(self.context) }.map_err(words)
    }

    /// Waits for everything on the stream.
    fn wait(&mut self) -> Result<(), String> {
        // SAFETY: the stream is this context's and not destroyed.
        let done = unsafe { result::stream::synchronize(self.stream) };
        self.after(done)?;
        self.running = None;
        Ok(())
    }

    /// The driver tells of a kernel's failure at some later call: names what may have failed.
    fn after<T>(&self, outcome: Result<T, DriverError>) -> Result<T, String> {
        outcome.map_err(|e| match &self.running {
            None => words(e),
            Some((last, 1)) => format!("{}; running was `{last}`", words(e)),
            Some((last, count)) => format!(
                "{}; running were {count} kernels, `{last}` the last (set CUDA_LAUNCH_BLOCKING=1 to see which failed)",
                words(e)
            ),
        })
    }

    /// Has the driver compile a kernel.
    pub fn load(&mut self, ptx: &str, name: &str) -> Result<Function, String> {
        self.enter()?;
        let text = CString::new(ptx).map_err(|_| "the text holds a zero byte".to_owned())?;
        let entry = CString::new(name).map_err(|_| "the name holds a zero byte".to_owned())?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options =
            [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The second value is a number in the place of a pointer.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG_BYTES - 1)];
        let mut module = std::ptr::null_mut();
        // SAFETY: the text ends in a zero byte; there are two options with two values; the log is as long as stated, and outlives the call.
        let loaded = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        self.after(loaded.result()).map_err(|e| {
            let said = String::from_utf8_lossy(&log);
            let said = said.trim_end_matches('\0').trim();
            if said.is_empty() { e } else { format!("{e}: {said}") }
        })?;
        self.modules.push(module);
        // SAFETY: the module is loaded, and stays so until this is dropped.
        let function = unsafe { result::module::get_function(module, entry) }.map_err(words)?;
        self.functions.push(function);
        Ok(Function(self.functions.len() - 1))
    }

    /// Zeroed memory; its address.
    pub fn alloc(&mut self, bytes: u64) -> Result<u64, String> {
        self.enter()?;
        let wanted = usize::try_from(bytes).map_err(|_| "more than this machine can address".to_owned())?;
        // The driver allocates no zero bytes.
        // SAFETY: a context is current.
        let allocated = unsafe { result::malloc_sync(wanted.max(1)) };
        let address = self.after(allocated).map_err(|e| format!("{bytes} bytes: {e}"))?;
        self.allocations.insert(address, bytes);
        if wanted > 0 {
            // SAFETY: the allocation is this long, and freed only after the stream was waited for.
            let zeroed = unsafe { result::memset_d8_async(address, 0, wanted, self.stream) };
            if let Err(e) = self.after(zeroed) {
                // Nobody will know the address.
                let _ = self.free(address);
                return Err(e);
            }
        }
        Ok(address)
    }

    /// Gives an allocation back.
    pub fn free(&mut self, address: u64) -> Result<(), String> {
        if !self.allocations.contains_key(&address) {
            return Err(format!("no allocation begins at {address:#x}"));
        }
        self.enter()?;
        self.wait()?;
        self.allocations.remove(&address);
        // SAFETY: the address is one that the driver gave and that was not freed; nothing on the stream uses it any more.
        unsafe { result::free_sync(address) }.map_err(words)
    }

    /// Fails unless the bytes lie within one allocation.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), String> {
        let holds = |(&base, &size): (&u64, &u64)| address - base <= size && bytes <= size - (address - base);
        if self.allocations.range(..=address).next_back().is_some_and(holds) {
            return Ok(());
        }
        Err(format!("{bytes} bytes at {address:#x} lie within no allocation of this device"))
    }

    /// Copies to the device.
    pub fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        self.check(address, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: the range lies within a living allocation; the host's bytes are borrowed until `wait` returns.
        let copied = unsafe { result::memcpy_htod_async(address, bytes, self.stream) };
        self.after(copied)?;
        self.wait()
    }

    /// Copies from the device.
    pub fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        self.check(address, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: as in `upload`.
        let copied = unsafe { result::memcpy_dtoh_async(bytes, address, self.stream) };
        self.after(copied)?;
        self.wait()
    }

    /// Starts a kernel. The caller has compared `values` with the kernel's parameters; addresses are checked here.
    ///
    /// # Safety
    /// `values` has a value for each parameter of the kernel, each as wide as its parameter: the driver reads as many bytes as the kernel
    /// declares.
    pub unsafe fn launch(
        &mut self,
        (function, name): (Function, &str),
        grid: [u32; 3],
        block: [u32; 3],
        values: &[Value],
    ) -> Result<(), String> {
        for value in values {
            if let Value::Address(address) = value {
                self.check(*address, 0)?;
            }
        }
        self.enter()?;
        let mut slots: Vec<u64> = values
            .iter()
            .map(|value| match *value {
                Value::U32(value) => value.into(),
                Value::Address(address) => address,
            })
            .collect();
        let mut params: Vec<*mut c_void> = slots.iter_mut().map(|slot| std::ptr::from_mut(slot).cast()).collect();
        let [gx, gy, gz] = grid;
        let [bx, by, bz] = block;
        // SAFETY: the function's module is loaded; there is a value for each parameter (the caller's promise), which the driver has copied
        // when the call returns.
        let launched = unsafe {
            result::launch_kernel(self.functions[function.0], (gx, gy, gz), (bx, by, bz), 0, self.stream, &mut params)
        };
        self.after(launched)?;
        let before = self.running.take().map_or(0, |(_, count)| count);
        self.running = Some((name.to_owned(), before + 1));
        Ok(())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // After a kernel's failure each of these fails too. The context is given back all the same: with the last who retained it go its
        // memory and the failure.
        let current = self.enter().is_ok();
        // SAFETY: every handle is this context's, and used for the last time; the stream is waited for first.
        unsafe {
            if current {
                let _ = result::stream::synchronize(self.stream);
                for &address in self.allocations.keys() {
                    let _ = result::free_sync(address);
                }
                for &module in &self.modules {
                    let _ = result::module::unload(module);
                }
                let _ = result::stream::destroy(self.stream);
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}
