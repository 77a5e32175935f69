//! What is refused, and that the refusal names the place.

use crate::device::{Device, all_options, compile_text, hopper};
use emulator::exec::{Arg, ExecError, ExecOptions, Limits, Memory, Nearest, Program, launch};
use emulator::profile::Profile;

const HEADER: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

fn refused(text: &str) -> ExecError {
    let module = ptx::parse(&format!("{HEADER}{text}")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    match Program::compile(&module, &module.kernels[0].name, hopper()) {
        Ok(_) => panic!("compiled: {text}"),
        Err(error) => error,
    }
}

/// A kernel with a pointer parameter `%p0` and the thread's number in `%t`.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 p) {{\n.reg .b64 %p0, %w;\n.reg .b32 %t, %r, %s;\n.reg .f32 %f;\n.reg .pred %q;\n\
         .shared .align 16 .b8 smem[64];\nld.param.u64 %p0, [p];\nmov.u32 %t, %tid.x;\n{body}\nret;\n}}\n"
    )
}

fn fault(body: &str, grid: u32, block: u32) -> ExecError {
    let program = compile_text(&kernel(body));
    let mut messages = Vec::new();
    let mut last = None;
    for options in all_options() {
        let mut device = Device::with(options);
        let p = device.zeros(64);
        match device.launch(&program, grid, block, &[p.into()]) {
            Ok(_) => panic!("ran: {body} {options:?}"),
            Err(error) => {
                if options.check.is_none() {
                    messages.push(error.to_string());
                    last = Some(error);
                }
            }
        }
    }
    assert!(messages.windows(2).all(|w| w[0] == w[1]), "the fault depends on how it is run: {messages:#?}");
    last.expect("some options do not check")
}

#[test]
fn an_access_out_of_bounds_names_instruction_block_warp_lane_address_and_neighbour() {
    let error = fault(
        "mov.u32 %r, %ctaid.x;\nmad.lo.u32 %r, %r, 64, %t;\nmad.wide.u32 %w, %r, 4, %p0;\nld.global.b32 %r, [%w+24];",
        3,
        64,
    );
    let ExecError::OutOfBounds { site, address, bytes: 4, nearest, .. } = &error else { panic!("{error}") };
    assert_eq!((site.block, site.warp, site.lane), ([0, 0, 0], 1, Some(26)));
    assert_eq!(*nearest, Nearest::After { base: address - 256, bytes: 256, distance: 0 });
    assert!(error.to_string().contains("ld.global.b32 %r, [%w+24]"), "{error}");
    assert!(error.to_string().contains("line 15 column 1"), "{error}");

    let error = fault("mad.lo.u32 %s, %t, 4, 4;\nst.shared.b32 [%s], %t;", 1, 16);
    let ExecError::OutOfBounds { site, address: 64, nearest, .. } = &error else { panic!("{error}") };
    assert_eq!(site.lane, Some(15));
    assert_eq!(*nearest, Nearest::After { base: 0, bytes: 64, distance: 0 });

    // The access that starts inside and ends outside.
    let error = fault("ld.global.v2.b32 {%r, %s}, [%p0+256];", 1, 1);
    assert!(matches!(error, ExecError::OutOfBounds { bytes: 8, .. }), "{error}");
}

#[test]
fn misaligned_accesses_are_refused() {
    let error = fault("ld.global.b32 %r, [%p0+2];", 1, 1);
    assert!(matches!(error, ExecError::Misaligned { bytes: 4, .. }), "{error}");
    let error = fault("mov.u32 %s, smem;\nst.shared.v2.b32 [%s+4], {%t, %t};", 1, 1);
    assert!(matches!(error, ExecError::Misaligned { bytes: 8, .. }), "{error}");
    let error = fault("mov.u32 %s, smem;\ncp.async.ca.shared.global [%s+4], [%p0+8], 8;", 1, 1);
    assert!(matches!(error, ExecError::Misaligned { bytes: 8, .. }), "{error}");
    let error = fault("mov.u32 %s, smem;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r}, [%s+8];", 1, 32);
    assert!(matches!(error, ExecError::Misaligned { bytes: 16, .. }), "{error}");
}

#[test]
fn freed_memory_is_out_of_bounds() {
    let program = compile_text(&kernel("ld.global.b32 %r, [%p0];"));
    let mut memory = Memory::new();
    let p = memory.alloc_zeroed(64).unwrap();
    let options = ExecOptions::default();
    launch(&program, [1; 3], [1; 3], &[p.into()], &memory, &options).unwrap();
    memory.free(p).unwrap();
    let error = launch(&program, [1; 3], [1; 3], &[p.into()], &memory, &options).unwrap_err();
    assert!(matches!(error, ExecError::OutOfBounds { nearest: Nearest::Nothing, .. }), "{error}");
    let q = memory.alloc(64).unwrap();
    assert_ne!(p, q, "an address is never given out twice");
}

#[test]
fn what_the_isa_leaves_undefined_is_refused() {
    let cases = [
        ("setp.lt.u32 %q, %t, 7;\n@%q bra SKIP;\nbar.sync 0;\nSKIP:", "a barrier that not every thread"),
        ("setp.lt.u32 %q, %t, 7;\n@%q bar.sync 0;", "a barrier that not every thread"),
        (
            "setp.lt.u32 %q, %t, 7;\n@%q bra SKIP;\nshfl.sync.idx.b32 %r, %t, 0, 31, 0xffffffff;\nSKIP:",
            "names a lane that is elsewhere",
        ),
        ("shfl.sync.idx.b32 %r, %t, 0, 31, 0xfffffffe;", "not in its own member mask"),
        (
            "setp.lt.u32 %q, %t, 7;\nselp.b32 %r, 3, 5, %q;\nshfl.sync.idx.b32 %r, %t, 0, 31, %r;",
            "name different member masks",
        ),
        (
            "setp.ge.u32 %q, %t, 16;\n@%q bra SKIP;\nshfl.sync.bfly.b32 %r, %t, 16, 31, 0xffff;\nSKIP:",
            "which does not take part",
        ),
        ("setp.lt.u32 %q, %t, 7;\n@%q bra SKIP;\nbar.warp.sync 0xffffffff;\nSKIP:", "names a lane that is elsewhere"),
        ("setp.lt.u32 %q, %t, 7;\n@%q bra.uni SKIP;\nmov.u32 %r, 1;\nSKIP:", "bra.uni"),
        (
            "setp.lt.u32 %q, %t, 7;\nmov.u32 %s, smem;\n@%q ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r}, [%s];",
            "not all 32 lanes",
        ),
        ("sub.u32 %r, %t, 5;\ndiv.u32 %r, %t, %r;", "division by zero"),
        ("and.b32 %r, %t, 1;\nrem.s32 %r, %t, %r;", "division by zero"),
        ("mov.u32 %s, smem;\nmov.u32 %r, 20;\ncp.async.ca.shared.global [%s], [%p0], 4, %r;", "source size beyond"),
    ];
    for (body, reason) in cases {
        let error = fault(body, 1, 32);
        assert!(matches!(error, ExecError::Undefined { .. }) && error.to_string().contains(reason), "{body}: {error}");
    }
    // A guard that keeps the zero divisor out.
    let program = compile_text(&kernel("setp.ne.u32 %q, %t, 5;\nsub.u32 %r, %t, 5;\n@%q div.u32 %r, %t, %r;"));
    for options in all_options() {
        let mut device = Device::with(options);
        let p = device.zeros(1);
        device.launch(&program, 1, 32, &[p.into()]).unwrap();
    }
}

#[test]
fn barriers_that_not_all_warps_reach_are_deadlocks() {
    for body in [
        "setp.lt.u32 %q, %t, 32;\n@%q bra SKIP;\nbar.sync 0;\nSKIP:",
        "setp.lt.u32 %q, %t, 32;\n@%q bra OTHER;\nbar.sync 1;\nbra END;\nOTHER:\nbar.sync 2;\nEND:",
    ] {
        let error = fault(body, 2, 96);
        let ExecError::Deadlock { block: [0, 0, 0], waiting, .. } = &error else { panic!("{error}") };
        assert_eq!(*waiting, if body.contains("OTHER") { 3 } else { 2 }, "{error}");
    }
}

#[test]
fn an_endless_kernel_ends_with_an_error() {
    for body in [
        "TOP:\nbra TOP;",
        "mov.u32 %s, smem;\nst.shared.u32 [%s], 0;\nTOP:\nld.shared.u32 %r, [%s];\nsetp.eq.u32 %q, %r, 0;\n@%q bra TOP;",
    ] {
        let program = compile_text(&kernel(body));
        for mut options in all_options() {
            options.limits = Limits { instructions: 1 << 20 };
            let mut device = Device::with(options);
            let p = device.zeros(1);
            let error = device.launch(&program, 4, 1, &[p.into()]).unwrap_err();
            assert!(matches!(error, ExecError::Budget { limit: 0x10_0000, .. }), "{error}");
        }
    }
}

/// A warp that waits in a loop for another warp's store must not starve it.
#[test]
fn a_warp_that_spins_lets_the_others_run() {
    let program = compile_text(&kernel(
        "setp.ge.u32 %q, %t, 32;\n@%q bra STORE;\nTOP:\natom.global.or.b32 %r, [%p0], 0;\nsetp.eq.u32 %q, %r, 0;\n@%q bra TOP;\nbra END;\n\
         STORE:\natom.global.or.b32 %r, [%p0], 1;\nEND:",
    ));
    for options in all_options() {
        let mut device = Device::with(options);
        let p = device.zeros(1);
        device.launch(&program, 1, 64, &[p.into()]).unwrap();
    }
}

#[test]
fn launches_are_checked_before_anything_runs() {
    let program = compile_text(&kernel("st.global.b32 [%p0], 1;").replace("{\n.reg", "\n.maxntid 64, 1, 1\n{\n.reg"));
    let mut device = Device::new();
    let p = device.zeros(1);
    let run = |grid, block, args: &[Arg]| {
        launch(&program, grid, block, args, &device.memory, &device.options).map(|_| ()).map_err(|e| e.to_string())
    };
    for (grid, block) in [
        ([0, 1, 1], [1, 1, 1]),
        ([1, 0x1_0000, 1], [1, 1, 1]),
        ([1, 1, 1], [0, 1, 1]),
        ([1, 1, 1], [1025, 1, 1]),
        ([1, 1, 1], [1, 1, 65]),
        ([1, 1, 1], [65, 1, 1]),
        ([1, 1, 1], [32, 33, 1]),
    ] {
        let error = run(grid, block, &[p.into()]).unwrap_err();
        assert!(error.contains("out of range"), "{error}");
    }
    assert!(run([1; 3], [1; 3], &[]).unwrap_err().contains("argument 0 is missing"));
    assert!(run([1; 3], [1; 3], &[p.into(), p.into()]).unwrap_err().contains("argument 1 is one too many"));
    assert!(run([1; 3], [1; 3], &[Arg::U32(0)]).unwrap_err().contains("argument 0 does not have the size"));
    assert_eq!(device.download(p, 1), [0], "nothing ran");
    run([1; 3], [1; 3], &[p.into()]).unwrap();
    assert_eq!(device.download(p, 1), [1]);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (body, reason) in [
        ("add.f32 %f, %f, %f;", "without a rounding"),
        ("sqrt.approx.ftz.f32 %f, %f;", "sqrt"),
        ("sqrt.approx.f32 %f, %f;", "has no model"),
        ("tanh.approx.f32 %f, %f;", "tanh"),
        ("cvta.to.shared.u64 %w, %w;", "generic address"),
        ("cvt.sat.u32.s32 %r, %t;", ".sat"),
    ] {
        let error = refused(&kernel(body)).to_string();
        assert!(error.contains(reason) && error.contains("line 12 column 1"), "{body}: {error}");
    }
    let module = ptx::parse(&format!("{HEADER}{}", kernel(""))).unwrap();
    let error = Program::compile(&module, "other", hopper()).unwrap_err();
    assert!(matches!(error, ExecError::NoKernel { .. }));
    let error = Program::compile(&module, "k", Profile::by_name("sm_75").unwrap()).unwrap_err();
    assert!(matches!(error, ExecError::Target { target: 80, .. }), "{error}");
}

#[test]
fn kernels_too_large_to_analyse_are_refused() {
    let jumps: String = (0..20_000).map(|i| format!("setp.eq.u32 %q, %t, {i};\n@%q bra END;\n")).collect();
    let error = refused(&kernel(&(jumps + "END:")));
    assert!(matches!(error, ExecError::Limit { what: "the number of basic blocks", .. }), "{error}");
}

/// A tree that no parser made is validated, not trusted.
#[test]
fn a_broken_tree_is_refused() {
    let mut module = ptx::parse(&format!("{HEADER}{}", kernel("add.u32 %r, %t, 1;"))).unwrap();
    module.kernels[0].regs.truncate(2);
    assert!(matches!(Program::compile(&module, "k", hopper()), Err(ExecError::Invalid(_))));
}
