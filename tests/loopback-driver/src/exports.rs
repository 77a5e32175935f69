//! The C interface: pointers in, status codes out.
//!
//! Names, parameters and meanings are those of the CUDA driver interface. Handles of modules, functions and streams are small numbers in
//! the place of pointers, and never followed.
#![allow(unsafe_code, reason = "the interface is C: it is exported by name and passes pointers")]
#![allow(clippy::missing_safety_doc, reason = "the safety of each function is that of the driver interface")]
#![allow(missing_docs, reason = "the names are those of the driver interface")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use emulator::exec::Arg;

use crate::NAME;
use crate::driver::{Driver, Status, Target, driver};

const MEMORY: usize = 8 << 30;
const CAPABILITY_MAJOR: c_uint = 75;
const CAPABILITY_MINOR: c_uint = 76;
const ERROR_LOG: c_uint = 5;
const ERROR_LOG_BYTES: c_uint = 6;

fn handle(index: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(index + 1)
}

fn index(handle: *mut c_void) -> usize {
    // Not a handle: beyond every table.
    handle.addr().wrapping_sub(1)
}

fn status(outcome: Result<(), Status>) -> Status {
    outcome.err().unwrap_or(Status::Success)
}

/// Writes a result to where the caller wants it.
///
/// # Safety
/// `to` is null or valid for writes.
unsafe fn give<T>(to: *mut T, outcome: Result<T, Status>) -> Status {
    match outcome {
        Ok(_) if to.is_null() => Status::InvalidValue,
        Ok(value) => {
            // SAFETY: not null, and the caller's promise.
            unsafe { to.write(value) };
            Status::Success
        }
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> Status {
    if flags != 0 { Status::InvalidValue } else { status(driver().start()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Status {
    // SAFETY: the caller's promise, as in every function here that gives a result.
    unsafe { give(version, Ok(driver().version())) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: c_uint, text: *mut *const c_char) -> Status {
    let known = Status::ALL.into_iter().find(|&s| s as u32 == code).ok_or(Status::InvalidValue);
    // SAFETY: see `cuDriverGetVersion`. The text is a constant.
    unsafe { give(text, known.map(|s| s.text().as_ptr())) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Status {
    // SAFETY: see `cuDriverGetVersion`.
    unsafe { give(count, driver().count()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Status {
    let found =
        driver().count().and_then(|n| (0..n).contains(&ordinal).then_some(ordinal).ok_or(Status::InvalidDevice));
    // SAFETY: see `cuDriverGetVersion`.
    unsafe { give(device, found) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int) -> Status {
    let room = usize::try_from(bytes).unwrap_or(0);
    if device != 0 || room <= NAME.len() {
        return Status::InvalidValue;
    }
    // SAFETY: there is room for the name and a zero byte, by the caller's promise about `bytes`.
    unsafe {
        std::ptr::copy_nonoverlapping(NAME.as_ptr().cast(), name, NAME.len());
        name.add(NAME.len()).write(0);
    }
    Status::Success
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, _device: c_int) -> Status {
    let (major, minor) = Driver::capability();
    let found = match attribute {
        CAPABILITY_MAJOR => Ok(major),
        CAPABILITY_MINOR => Ok(minor),
        _ => Err(Status::InvalidValue),
    };
    // SAFETY: see `cuDriverGetVersion`.
    unsafe { give(value, found) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) -> Status {
    // SAFETY: see `cuDriverGetVersion`.
    unsafe { give(bytes, Ok(MEMORY)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _device: c_int) -> Status {
    driver().retain();
    // SAFETY: see `cuDriverGetVersion`.
    unsafe { give(context, Ok(handle(0))) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> Status {
    driver().release();
    Status::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> Status {
    if index(context) == 0 { Status::Success } else { Status::InvalidContext }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, _flags: c_uint) -> Status {
    // SAFETY: see `cuDriverGetVersion`.
    unsafe { give(stream, Ok(handle(0))) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(_stream: *mut c_void) -> Status {
    status(driver().wait())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(_stream: *mut c_void) -> Status {
    Status::Success
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut *mut c_void,
    image: *const c_void,
    count: c_uint,
    options: *const c_uint,
    values: *mut *mut c_void,
) -> Status {
    // SAFETY: the image is a text that ends in a zero byte, by the interface.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    let loaded = match text.to_str() {
        Ok(text) => driver().load(text),
        Err(e) => Err((Status::InvalidPtx, e.to_string())),
    };
    let (outcome, said) = match loaded {
        Ok(index) => (Ok(handle(index)), String::new()),
        Err((status, said)) => (Err(status), said),
    };
    // SAFETY: there are `count` options with a value each, by the interface; a log has as many bytes as its size says.
    unsafe {
        let option = |which| (0..count as usize).find(|&i| *options.add(i) == which).map(|i| *values.add(i));
        if let (Some(log), Some(size)) = (option(ERROR_LOG), option(ERROR_LOG_BYTES)) {
            let said = &said.as_bytes()[..said.len().min(size.addr().saturating_sub(1))];
            std::ptr::copy_nonoverlapping(said.as_ptr(), log.cast::<u8>(), said.len());
            log.cast::<u8>().add(said.len()).write(0);
        }
        give(module, outcome)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> Status {
    // SAFETY: a name ends in a zero byte, by the interface.
    let name = unsafe { CStr::from_ptr(name) };
    let found = name.to_str().map_err(|_| Status::NotFound).and_then(|name| driver().function(index(module), name));
    // SAFETY: see `cuDriverGetVersion`.
    unsafe { give(function, found.map(handle)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: *mut c_void) -> Status {
    status(driver().unload(index(module)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Status {
    // SAFETY: see `cuDriverGetVersion`.
    unsafe { give(address, driver().alloc(bytes as u64)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> Status {
    status(driver().free(address))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(address: u64, value: u8, bytes: usize, _stream: *mut c_void) -> Status {
    status(driver().zero(address, value, bytes as u64))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    address: u64,
    from: *const c_void,
    bytes: usize,
    _stream: *mut c_void,
) -> Status {
    // SAFETY: so many bytes can be read there, by the interface.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
    status(driver().upload(address, bytes.to_vec()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    address: u64,
    bytes: usize,
    _stream: *mut c_void,
) -> Status {
    // SAFETY: the interface asks that the bytes stay valid until the stream was waited for.
    let target = unsafe { Target::new(to.cast(), bytes) };
    status(driver().download(address, target))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    _stream: *mut c_void,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Status {
    if shared != 0 || !extra.is_null() {
        return Status::InvalidValue;
    }
    let mut driver = driver();
    let sizes = match driver.parameters(index(function)) {
        Ok(sizes) => sizes,
        Err(status) => return status,
    };
    let mut args = Vec::new();
    for (i, bytes) in sizes.into_iter().enumerate() {
        // SAFETY: there is a pointer for each parameter, to as many bytes as the parameter has, by the interface; they are read before the
        // call returns.
        args.push(unsafe {
            let at = *params.add(i);
            match bytes {
                1 => Arg::U8(at.cast::<u8>().read_unaligned()),
                2 => Arg::U16(at.cast::<u16>().read_unaligned()),
                4 => Arg::U32(at.cast::<u32>().read_unaligned()),
                _ => Arg::U64(at.cast::<u64>().read_unaligned()),
            }
        });
    }
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    status(driver.launch(index(function), grid, block, args))
}
