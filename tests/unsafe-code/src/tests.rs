//! The driver and the context against the loopback driver; a mapped file.
//!
//! A driver is found by the loader when a process starts, and is one for all of it. So each case is a process: this one again, with the
//! loopback driver where a driver is looked for.

use std::path::PathBuf;
use std::process::Command;

use crate::context::{Context, Value};
use crate::library::Library;
use crate::mapped::Mapped;

/// `out[i] += n` for a block of 32 threads.
const ADD: &str = "\
.version 7.0
.target sm_80
.address_size 64

.visible .entry add(
.param .u64 out,
.param .u32 n
)
{
.reg .b32 %r<4>;
.reg .b64 %rd<3>;
ld.param.u64 %rd0, [out];
ld.param.u32 %r0, [n];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd1, %r1, 4;
add.s64 %rd2, %rd0, %rd1;
ld.global.u32 %r2, [%rd2];
add.s32 %r3, %r2, %r0;
st.global.u32 [%rd2], %r3;
ret;
}
";

/// Says which case a process is.
const CASE: &str = "LASTBIT_UNSAFE_CODE_CASE";

/// Runs `case` in a process that finds the loopback driver, with `fault` wrong with it.
fn with_driver(name: &str, fault: &str, case: fn()) {
    if std::env::var(CASE).is_ok_and(|chosen| chosen == name) {
        return case();
    }
    if std::env::var_os(CASE).is_some() {
        return;
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let test = std::env::current_exe().expect("this test is a file");
    let library: PathBuf = test.parent().expect("it is in a folder").join("liblastbit_loopback_driver.so");
    // Before every other name that is tried.
    std::fs::copy(&library, folder.path().join("libcuda.so")).unwrap_or_else(|e| panic!("{}: {e}", library.display()));
    let output = Command::new(test)
        .args([&format!("tests::{name}"), "--exact", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env("LASTBIT_LOOPBACK_FAULT", fault)
        .env(CASE, name)
        .output()
        .expect("this test starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!said.contains(lastbit_loopback_driver::LEFT), "{said}");
}

fn open() -> Context {
    let library = Library::load().unwrap();
    assert_eq!(library.version(), "CUDA 13.0");
    let cards = library.cards().unwrap();
    assert_eq!((cards.len(), cards[0].name.as_str()), (1, lastbit_loopback_driver::NAME));
    let (card, device) = library.card(0).unwrap();
    assert_eq!(card, cards[0]);
    assert!(library.card(1).is_err());
    Context::open(device).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_kernel_runs_and_memory_is_given_back() {
    with_driver("a_kernel_runs_and_memory_is_given_back", "", || {
        let mut context = open();
        let add = context.load(ADD, "add").unwrap();
        assert!(context.load(ADD, "sub").unwrap_err().contains("CUDA_ERROR_NOT_FOUND"));
        assert!(context.load("nothing", "add").unwrap_err().contains("CUDA_ERROR_INVALID_PTX"));
        let address = context.alloc(128).unwrap();
        let mut bytes = [1; 128];
        context.download(address, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 128], "memory is zeroed");
        let words: Vec<u8> = (0..32_u32).flat_map(u32::to_le_bytes).collect();
        context.upload(address, &words).unwrap();
        for _ in 0..3 {
            // SAFETY: the kernel's two parameters have these widths.
            unsafe { context.launch((add, "add"), [1; 3], [32, 1, 1], &[Value::Address(address), Value::U32(7)]) }
                .unwrap();
        }
        context.download(address, &mut bytes).unwrap();
        let expected: Vec<u8> = (21..53_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(bytes, expected[..]);
        // Ranges that are not ours.
        for (from, count) in [(address, 129), (address + 1, 128), (address - 1, 1), (0, 1), (u64::MAX, 8)] {
            assert!(context.upload(from, &vec![0; count]).unwrap_err().contains("within no allocation"));
            assert!(context.download(from, &mut vec![0; count]).is_err());
        }
        // SAFETY: as above.
        let astray = unsafe { context.launch((add, "add"), [1; 3], [32, 1, 1], &[Value::Address(8), Value::U32(7)]) };
        assert!(astray.unwrap_err().contains("within no allocation"));
        let empty = context.alloc(0).unwrap();
        context.upload(empty, &[]).unwrap();
        context.free(empty).unwrap();
        context.free(address).unwrap();
        assert!(context.free(address).unwrap_err().contains("no allocation begins"));
        // One is left for the context to give back.
        context.alloc(64).unwrap();
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_failed_kernel_is_named_and_nothing_works_after_it() {
    with_driver("a_failed_kernel_is_named_and_nothing_works_after_it", "kernel", || {
        let mut context = open();
        let add = context.load(ADD, "add").unwrap();
        let address = context.alloc(128).unwrap();
        // SAFETY: the kernel's two parameters have these widths.
        unsafe { context.launch((add, "add"), [1; 3], [32, 1, 1], &[Value::Address(address), Value::U32(7)]) }.unwrap();
        let error = context.download(address, &mut [0; 128]).unwrap_err();
        assert!(error.contains("CUDA_ERROR_ILLEGAL_ADDRESS") && error.contains("running was `add`"), "{error}");
        assert!(context.alloc(8).is_err());
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_compiler_s_complaint_is_shown() {
    with_driver("a_compiler_s_complaint_is_shown", "ptx", || {
        let error = open().load(ADD, "add").unwrap_err();
        assert!(error.contains("CUDA_ERROR_INVALID_PTX") && error.contains("ptxas fatal"), "{error}");
    });
}

#[test]
#[cfg(target_os = "linux")]
fn memory_may_be_short() {
    with_driver("memory_may_be_short", "memory", || {
        let error = open().alloc(1 << 20).unwrap_err();
        assert!(error.contains("1048576 bytes") && error.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
    });
}

#[test]
fn a_mapped_file_is_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let map = Mapped::open(&path).unwrap();
    assert!(*map == bytes[..]);
    assert!(Mapped::open(folder.path()).is_err());
    assert!(Mapped::open(&folder.path().join("absent")).is_err());
    std::fs::write(&path, b"").unwrap();
    assert!(Mapped::open(&path).is_ok_and(|map| map.is_empty()));
}
