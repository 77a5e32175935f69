//! The checker: kernels with one mistake each are caught whatever the seed, their correct forms are not.

use crate::device::{Device, all_options, compile_text};
use emulator::exec::{AccessKind, ExecError};

/// A kernel of a pointer to 256 zeroed words; `%t` is the thread's number, `%s` the shared address of its word,
/// `%o` of its neighbour's (32 threads further on, around the end), `%a` the global address of its word.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 p) {{\n.reg .b64 %p0, %a, %w;\n.reg .b32 %t, %r, %s, %o, %n, %v, %x, %y, %z;\n.reg .b16 %h;\n.reg .pred %q;\n\
         .shared .align 16 .b8 smem[1024];\nld.param.u64 %p0, [p];\nmov.u32 %t, %tid.x;\nmov.u32 %s, smem;\nmov.u32 %n, %ntid.x;\n\
         add.u32 %o, %t, 32;\nrem.u32 %o, %o, %n;\nmad.lo.u32 %o, %o, 4, %s;\nmad.lo.u32 %s, %t, 4, %s;\n\
         mad.wide.u32 %a, %t, 4, %p0;\n{body}\nret;\n}}\n"
    )
}

fn run(body: &str, grid: u32, block: u32, seed: u64) -> Result<(), ExecError> {
    let program = compile_text(&kernel(body));
    let mut device = Device::checking(seed);
    let p = device.zeros(256);
    device.launch(&program, grid, block, &[p.into()]).map(|_| ())
}

/// Runs under several seeds; all must give an error, and the check decides on each.
fn caught(body: &str, grid: u32, block: u32, check: impl Fn(&ExecError) -> bool) {
    for seed in 0..8 {
        match run(body, grid, block, seed) {
            Ok(()) => panic!("not caught with seed {seed}: {body}"),
            Err(error) => assert!(check(&error), "{body}: {error}"),
        }
    }
}

fn clean(body: &str, grid: u32, block: u32) {
    for seed in 0..8 {
        run(body, grid, block, seed).unwrap_or_else(|error| panic!("{body}: {error}"));
    }
}

fn race(error: &ExecError, advice: &str) -> bool {
    matches!(error, ExecError::Race { advice: a, .. } if a.contains(advice))
}

#[test]
fn a_missing_barrier_between_warps() {
    caught("st.shared.u32 [%s], %t;\nld.shared.u32 %r, [%o];", 1, 64, |e| {
        // One of them may also be found reading what is not written yet.
        race(e, "bar.sync") || matches!(e, ExecError::UninitialisedMemory { .. })
    });
    clean("st.shared.u32 [%s], %t;\nbar.sync 0;\nld.shared.u32 %r, [%o];", 1, 64);
    // A barrier before, but none between the read and the next write.
    let missing = "st.shared.u32 [%s], %t;\nbar.sync 0;\nld.shared.u32 %r, [%o];\nst.shared.u32 [%s], %r;";
    caught(missing, 1, 64, |e| race(e, "bar.sync"));
    clean(&missing.replace("[%o];", "[%o];\nbar.sync 0;"), 1, 64);
    // Two warps store to one word.
    caught("mov.u32 %s, smem;\nst.shared.u32 [%s], %t;", 1, 64, |e| matches!(e, ExecError::Race { .. }));
    // The error names both sides.
    let error = run(missing, 1, 64, 1).unwrap_err();
    let ExecError::Race { first, second, now, before, .. } = &error else { panic!("{error}") };
    assert_ne!(first.warp, second.warp);
    assert_ne!(now, before);
    assert!(
        error.to_string().contains("ld.shared.u32 %r, [%o]") && error.to_string().contains("st.shared.u32 [%s], %r"),
        "{error}"
    );
}

#[test]
fn a_missing_barrier_between_lanes_of_a_warp() {
    let body = "xor.b32 %o, %s, 4;\nst.shared.u32 [%s], %t;\nld.shared.u32 %r, [%o];";
    caught(body, 1, 32, |e| race(e, "bar.warp.sync"));
    clean(&body.replace("%t;\nld", "%t;\nbar.warp.sync 0xffffffff;\nld"), 1, 32);
    clean(&body.replace("%t;\nld", "%t;\nbar.sync 0;\nld"), 1, 32);
    // A lane may read back what it wrote itself.
    clean("st.shared.u32 [%s], %t;\nld.shared.u32 %r, [%s];", 1, 64);
    // Shuffles do not order memory.
    caught(&body.replace("%t;\nld", "%t;\nshfl.sync.idx.b32 %v, %t, 0, 31, 0xffffffff;\nld"), 1, 32, |e| {
        race(e, "bar.warp.sync")
    });
    // ldmatrix reads for the whole warp.
    let matrix = "mov.u32 %o, smem;\nmad.lo.u32 %o, %t, 16, %o;\nst.shared.v4.u32 [%o], {%t, %t, %t, %t};\nSYNC\
                  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%x, %y, %z, %v}, [%o];";
    caught(&matrix.replace("SYNC", ""), 1, 32, |e| race(e, "bar.warp.sync"));
    clean(&matrix.replace("SYNC", "bar.warp.sync 0xffffffff;\n"), 1, 32);
}

#[test]
fn lanes_that_store_different_values_to_one_word() {
    caught("mov.u32 %s, smem;\nst.shared.u32 [%s], %t;", 1, 32, |e| matches!(e, ExecError::Race { .. }));
    clean("mov.u32 %s, smem;\nst.shared.u32 [%s], 5;", 1, 32);
    caught("st.global.u32 [%p0], %t;", 1, 32, |e| matches!(e, ExecError::Race { .. }));
    // Halves of a word are not the word.
    clean("cvt.u16.u32 %h, %t;\nmov.u32 %s, smem;\nmad.lo.u32 %s, %t, 2, %s;\nst.shared.u16 [%s], %h;", 1, 64);
    caught(
        "cvt.u16.u32 %h, %t;\nand.b32 %t, %t, 62;\nmov.u32 %s, smem;\nadd.u32 %s, %t, %s;\nst.shared.u16 [%s], %h;",
        1,
        64,
        |e| matches!(e, ExecError::Race { .. }),
    );
}

#[test]
fn a_missing_wait_for_an_asynchronous_copy() {
    let correct = "cp.async.ca.shared.global [%s], [%a], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nld.shared.u32 %r, [%o];\n\
                   st.global.u32 [%a], %r;";
    clean(correct, 1, 64);
    clean(&correct.replace("cp.async.commit_group;\ncp.async.wait_group 0;", "cp.async.wait_all;"), 1, 64);
    let pending = |e: &ExecError| matches!(e, ExecError::AsyncPending { now: AccessKind::Read, .. });
    // No wait; a wait that leaves the group out; no commit.
    caught(&correct.replace("cp.async.wait_group 0;\n", ""), 1, 64, pending);
    caught(&correct.replace("wait_group 0", "wait_group 1"), 1, 64, pending);
    caught(&correct.replace("cp.async.commit_group;\n", ""), 1, 64, pending);
    // A wait, but no barrier: the neighbour's copy may not have landed, or is not visible.
    let early = |e: &ExecError| pending(e) || race(e, "bar.sync") || matches!(e, ExecError::UninitialisedMemory { .. });
    caught(&correct.replace("bar.sync 0;\n", ""), 1, 64, early);
    // The barrier before the wait orders nothing.
    caught(
        &correct.replace("cp.async.wait_group 0;\nbar.sync 0;", "bar.sync 0;\ncp.async.wait_group 0;"),
        1,
        64,
        early,
    );
    // Own data needs no barrier, only the wait.
    let own = correct.replace("bar.sync 0;\n", "").replace("[%o]", "[%s]");
    clean(&own, 1, 64);
    caught(&own.replace("cp.async.wait_group 0;\n", ""), 1, 64, pending);
    // Writing where a copy is going.
    caught("cp.async.ca.shared.global [%s], [%a], 4;\nst.shared.u32 [%s], %t;\ncp.async.wait_all;", 1, 32, |e| {
        matches!(e, ExecError::AsyncPending { now: AccessKind::Write, .. })
    });
    // The error names the copy and the access.
    let error = run(&correct.replace("cp.async.wait_group 0;\n", ""), 1, 64, 3).unwrap_err().to_string();
    assert!(error.contains("ld.shared.u32 %r, [%o]") && error.contains("cp.async.ca.shared.global"), "{error}");
}

/// A double-buffered pipeline, right and with the second barrier left out.
#[test]
fn a_buffer_that_is_refilled_while_others_still_read_it() {
    let pipeline = "mov.u32 %v, 0;\nmov.u32 %x, 0;\ncp.async.ca.shared.global [%s], [%a], 4;\ncp.async.commit_group;\n\
         TOP:\ncp.async.wait_group 0;\nbar.sync 0;\nxor.b32 %y, %x, 512;\nadd.u32 %z, %s, %y;\n\
         cp.async.ca.shared.global [%z], [%a], 4;\ncp.async.commit_group;\nadd.u32 %z, %o, %x;\nld.shared.u32 %r, [%z];\n\
         mov.u32 %x, %y;\nadd.u32 %v, %v, 1;\nsetp.lt.u32 %q, %v, 6;\n@%q bra TOP;\ncp.async.wait_all;";
    clean(pipeline, 1, 64);
    // One buffer instead of two: the next copy is issued while neighbours read the last.
    caught(&pipeline.replace("xor.b32 %y, %x, 512;", "mov.u32 %y, %x;"), 1, 64, |e| {
        race(e, "bar.sync") || matches!(e, ExecError::AsyncPending { .. })
    });
}

#[test]
fn blocks_that_touch_the_same_words() {
    // Every block writes the same words; reads what another writes; adds by plain load and store.
    caught("mov.u32 %r, %ctaid.x;\nst.global.u32 [%a], %r;", 4, 32, |e| race(e, "nothing orders blocks"));
    caught("st.global.u32 [%a], 1;", 2, 32, |e| race(e, "nothing orders blocks"));
    caught(
        "mov.u32 %r, %ctaid.x;\nsetp.eq.u32 %q, %r, 0;\n@%q st.global.u32 [%a], 1;\nld.global.u32 %r, [%a];",
        2,
        32,
        |e| race(e, "nothing orders blocks"),
    );
    clean(
        "mov.u32 %r, %ctaid.x;\nmad.wide.u32 %a, %r, 128, %a;\nst.global.u32 [%a], 1;\nld.global.u32 %r, [%a];",
        4,
        32,
    );
    clean("ld.global.u32 %r, [%a];", 4, 32);
    // Neighbouring halves of a word are no race.
    clean("mov.u32 %r, %ctaid.x;\nmad.wide.u32 %a, %r, 2, %a;\ncvt.u16.u32 %h, %r;\nst.global.u16 [%a], %h;", 2, 32);
    // Atomics do not race with one another, but with plain accesses.
    clean("atom.global.add.u32 %r, [%p0], 1;", 4, 64);
    caught("atom.global.add.u32 %r, [%p0], 1;\nld.global.u32 %r, [%p0];", 4, 64, |e| {
        matches!(e, ExecError::Race { .. })
    });
}

#[test]
fn warps_that_touch_the_same_global_words() {
    let body = "st.global.u32 [%a], %t;\nxor.b32 %r, %t, 32;\nmad.wide.u32 %w, %r, 4, %p0;\nld.global.u32 %r, [%w];";
    caught(body, 1, 64, |e| race(e, "bar.sync"));
    clean(&body.replace("%t;\nxor", "%t;\nbar.sync 0;\nxor"), 1, 64);
}

#[test]
fn reads_of_what_nothing_has_written() {
    caught("ld.shared.u32 %r, [%s];", 1, 32, |e| matches!(e, ExecError::UninitialisedMemory { .. }));
    caught(
        "setp.lt.u32 %q, %t, 31;\n@%q st.shared.u32 [%s], 1;\nld.shared.u32 %r, [%s];",
        1,
        32,
        |e| matches!(e, ExecError::UninitialisedMemory { site, .. } if site.lane == Some(31)),
    );
    caught(
        "add.u32 %r, %v, 1;",
        1,
        32,
        |e| matches!(e, ExecError::UninitialisedRegister { register, .. } if register == "%v"),
    );
    caught(
        "setp.ne.u32 %q, %t, 9;\n@%q mov.u32 %v, 1;\nadd.u32 %r, %v, 1;",
        1,
        32,
        |e| matches!(e, ExecError::UninitialisedRegister { site, .. } if site.lane == Some(9)),
    );
    clean("setp.ne.u32 %q, %t, 9;\n@%q mov.u32 %v, 1;\n@%q add.u32 %r, %v, 1;", 1, 32);
    caught("@%q mov.u32 %v, 1;", 1, 32, |e| matches!(e, ExecError::UninitialisedRegister { .. }));
    // Nothing of one block's shared memory reaches the next.
    let body = "mov.u32 %r, %ctaid.x;\nsetp.eq.u32 %q, %r, 0;\n@%q st.shared.u32 [%s], 1;\nld.shared.u32 %r, [%s];";
    caught(body, 2, 32, |e| matches!(e, ExecError::UninitialisedMemory { .. }));
}

#[test]
fn global_memory_counts_as_written_by_uploads_and_launches() {
    let load = compile_text(&kernel("ld.global.u32 %r, [%a];"));
    let store = compile_text(&kernel("st.global.u32 [%a], 1;"));
    let mut device = Device::checking(0);
    let p = device.memory.alloc(256).unwrap();
    let uninitialised = |e: Result<_, ExecError>| matches!(e, Err(ExecError::UninitialisedMemory { .. }));
    assert!(uninitialised(device.launch(&load, 1, 64, &[p.into()])));
    device.memory.upload(p, &[1; 128]).unwrap();
    device.launch(&load, 1, 32, &[p.into()]).unwrap();
    assert!(uninitialised(device.launch(&load, 1, 33, &[p.into()])));
    device.launch(&store, 1, 48, &[p.into()]).unwrap();
    device.launch(&load, 1, 48, &[p.into()]).unwrap();
    assert!(uninitialised(device.launch(&load, 1, 49, &[p.into()])));
    // After a launch without checker nothing is known to be unwritten.
    let checking = device.options;
    device.options.check = None;
    device.launch(&store, 1, 1, &[p.into()]).unwrap();
    device.options = checking;
    device.launch(&load, 1, 64, &[p.into()]).unwrap();
}

/// The order of warps cannot change what a correct kernel computes: a block-wide sum in shared memory.
#[test]
fn a_correct_reduction_has_the_same_bits_in_every_order() {
    let body = "shl.b32 %r, %t, 3;\nst.shared.u32 [%s], %r;\nmov.u32 %v, 128;\nTOP:\nbar.sync 0;\nsetp.lt.u32 %q, %t, %v;\n\
        mad.lo.u32 %o, %v, 4, %s;\n@%q ld.shared.u32 %x, [%o];\n@%q ld.shared.u32 %y, [%s];\n@%q add.u32 %x, %x, %y;\n\
        @%q st.shared.u32 [%s], %x;\nshr.u32 %v, %v, 1;\nsetp.ne.u32 %q, %v, 0;\n@%q bra TOP;\nsetp.eq.u32 %q, %t, 0;\n\
        @%q ld.shared.u32 %x, [%s];\n@%q st.global.u32 [%p0], %x;";
    let program = compile_text(&kernel(body));
    for options in all_options() {
        let mut device = Device::with(options);
        let p = device.zeros(256);
        device.launch(&program, 1, 256, &[p.into()]).unwrap();
        assert_eq!(device.download(p, 1), [8 * 255 * 128]);
    }
}
