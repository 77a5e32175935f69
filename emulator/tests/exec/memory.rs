//! Loads, stores, parameters, atomics, asynchronous copies: every width, in runs and scattered.

use crate::device::{Device, Random, all_options, compile_text};
use emulator::exec::Arg;

/// Copies `bytes` per thread from `in + 4 * index[tid]` by way of a load and a store of the given forms.
fn copy_kernel(space: &str, load: &str, store: &str, regs: &str, list: &str, bytes: u32) -> String {
    let mut text = format!(
        ".visible .entry k(.param .u64 pin, .param .u64 pout, .param .u64 pindex, .param .u32 pmask) {{\n.reg .b64 %in, %out, %index, %w;\n\
         .reg .b32 %t, %i, %s, %m;\n.reg .pred %p;\n{regs}\n.shared .align 16 .b8 smem[4096];\n\
         ld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\nld.param.u64 %index, [pindex];\nmov.u32 %t, %tid.x;\n\
         ld.param.u32 %m, [pmask];\nshr.u32 %m, %m, %t;\nand.b32 %m, %m, 1;\nsetp.ne.u32 %p, %m, 0;\n\
         mad.wide.u32 %index, %t, 4, %index;\nld.global.u32 %i, [%index];\nmul.wide.u32 %w, %i, {bytes};\n\
         add.u64 %in, %in, %w;\nadd.u64 %out, %out, %w;\n"
    );
    match space {
        "global" => text += &format!("@%p ld.global.{load} {list}, [%in];\n@%p st.global.{store} [%out], {list};\n"),
        // Global to shared at the scattered place, back to registers, out again.
        _ => {
            text += &format!(
                "mov.u32 %s, smem;\nmad.lo.u32 %s, %i, {bytes}, %s;\n@%p ld.global.{load} {list}, [%in];\n\
                 @%p st.shared.{store} [%s], {list};\n@%p ld.shared.{load} {list}, [%s];\n\
                 @%p st.global.{store} [%out], {list};\n"
            );
        }
    }
    text + "ret;\n}\n"
}

#[test]
fn every_width_moves_in_runs_and_scattered() {
    let forms: [(&str, &str, &str, u32); 13] = [
        ("b8", ".reg .b16 %a;", "%a", 1),
        ("b16", ".reg .b16 %a;", "%a", 2),
        ("b16", ".reg .b32 %a;", "%a", 2),
        ("b32", ".reg .b32 %a;", "%a", 4),
        ("f32", ".reg .f32 %a;", "%a", 4),
        ("b64", ".reg .b64 %a;", "%a", 8),
        ("v2.b8", ".reg .b16 %a, %b;", "{%a, %b}", 2),
        ("v4.b8", ".reg .b32 %a, %b, %c, %d;", "{%a, %b, %c, %d}", 4),
        ("v2.b16", ".reg .b16 %a, %b;", "{%a, %b}", 4),
        ("v4.b16", ".reg .b16 %a, %b, %c, %d;", "{%a, %b, %c, %d}", 8),
        ("v2.b32", ".reg .b32 %a, %b;", "{%a, %b}", 8),
        ("v4.b32", ".reg .b32 %a, %b, %c, %d;", "{%a, %b, %c, %d}", 16),
        ("v2.b64", ".reg .b64 %a, %b;", "{%a, %b}", 16),
    ];
    let mut random = Random(5);
    for space in ["global", "shared"] {
        for (form, regs, list, bytes) in forms {
            let program = compile_text(&copy_kernel(space, form, form, regs, list, bytes));
            for (round, options) in all_options().into_iter().enumerate() {
                let mut index: Vec<u32> = (0..64).collect();
                if round % 2 == 1 {
                    for i in (1..64).rev() {
                        index.swap(i, random.below(i as u64 + 1) as usize);
                    }
                }
                let mask = if round % 3 == 0 { u32::MAX } else { 0x1234_f00f };
                let data: Vec<u32> = (0..256).map(|_| random.next() as u32).collect();
                let mut device = Device::with(options);
                let (pin, pout, pindex) = (device.upload(&data), device.zeros(256), device.upload(&index));
                let args = [pin.into(), pout.into(), pindex.into(), mask.into()];
                device.launch(&program, 1, 64, &args).unwrap_or_else(|e| panic!("{space} {form}: {e}"));
                let bytes_of = |words: Vec<u32>| words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
                let (from, got) = (bytes_of(data), bytes_of(device.download(pout, 256)));
                let mut want = vec![0; 1024];
                for (lane, &i) in index.iter().enumerate() {
                    if mask.checked_shr(lane as u32).unwrap_or(0) & 1 == 1 {
                        let at = (i * bytes) as usize..((i + 1) * bytes) as usize;
                        want[at.clone()].copy_from_slice(&from[at]);
                    }
                }
                assert_eq!(got, want, "{space} {form} {options:?}");
            }
        }
    }
}

#[test]
fn narrow_loads_extend_to_the_register_by_their_sign() {
    let program = compile_text(
        ".visible .entry k(.param .u64 pin, .param .u64 pout, .param .u8 b, .param .s16 h) {\n.reg .b64 %in, %out, %w;\n\
         .reg .b32 %r;\n.reg .b16 %h;\nld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\n\
         ld.global.s8 %r, [%in+1];\nst.global.b32 [%out], %r;\nld.global.u8 %r, [%in+1];\nst.global.b32 [%out+4], %r;\n\
         ld.global.s16 %r, [%in+2];\nst.global.b32 [%out+8], %r;\nld.global.u16 %r, [%in+2];\nst.global.b32 [%out+12], %r;\n\
         ld.global.s8 %h, [%in+1];\nmov.b32 %r, {%h, %h};\nst.global.b32 [%out+16], %r;\n\
         ld.global.s32 %w, [%in];\nst.global.b64 [%out+24], %w;\nld.global.u32 %w, [%in];\nst.global.b64 [%out+32], %w;\n\
         ld.global.s16 %w, [%in+2];\nst.global.b64 [%out+40], %w;\n\
         ld.param.u8 %r, [b];\nst.global.b32 [%out+48], %r;\nld.param.s16 %r, [h];\nst.global.b32 [%out+52], %r;\n\
         ret;\n}\n",
    );
    for options in all_options() {
        let mut device = Device::with(options);
        let (pin, pout) = (device.upload(&[0x8765_fe21]), device.zeros(14));
        device.launch(&program, 1, 32, &[pin.into(), pout.into(), Arg::U8(0xa5), Arg::U16(0x8001)]).unwrap();
        assert_eq!(
            device.download(pout, 14),
            [
                0xffff_fffe,
                0xfe,
                0xffff_8765,
                0x8765,
                0xfffe_fffe,
                0,
                0x8765_fe21,
                0xffff_ffff,
                0x8765_fe21,
                0,
                0xffff_8765,
                0xffff_ffff,
                0xa5,
                0xffff_8001
            ]
        );
    }
}

#[test]
fn parameters_of_all_sizes_lie_where_c_puts_them() {
    let program = compile_text(
        ".visible .entry k(.param .u64 pout, .param .u8 a, .param .u32 b, .param .u16 c, .param .u64 d, .param .f32 e) {\n\
         .reg .b64 %out, %w;\n.reg .b32 %r;\n.reg .f32 %f;\nld.param.u64 %out, [pout];\n\
         ld.param.u8 %r, [a];\nst.global.b32 [%out], %r;\nld.param.u32 %r, [b];\nst.global.b32 [%out+4], %r;\n\
         ld.param.u16 %r, [c];\nst.global.b32 [%out+8], %r;\nld.param.u64 %w, [d];\nst.global.b64 [%out+16], %w;\n\
         ld.param.f32 %f, [e];\nst.global.f32 [%out+24], %f;\nld.param.u32 %r, [d+4];\nst.global.b32 [%out+28], %r;\nret;\n}\n",
    );
    let mut device = Device::new();
    let out = device.zeros(8);
    let args = [out.into(), Arg::U8(7), Arg::U32(8), Arg::U16(9), Arg::U64(0x1122_3344_5566_7788), Arg::f32(1.5)];
    device.launch(&program, 1, 1, &args).unwrap();
    assert_eq!(device.download(out, 8), [7, 8, 9, 0, 0x5566_7788, 0x1122_3344, 0x3fc0_0000, 0x1122_3344]);
}

#[test]
fn special_registers_number_threads_and_blocks_with_x_fastest() {
    let mut text = ".visible .entry k(.param .u64 pout) {\n.reg .b64 %out;\n.reg .b32 %r, %i, %j;\nld.param.u64 %out, [pout];\n\
         mov.u32 %i, %ctaid.z;\nmov.u32 %r, %nctaid.y;\nmov.u32 %j, %ctaid.y;\nmad.lo.u32 %i, %i, %r, %j;\nmov.u32 %r, %nctaid.x;\n\
         mov.u32 %j, %ctaid.x;\nmad.lo.u32 %i, %i, %r, %j;\nmov.u32 %r, %ntid.z;\nmov.u32 %j, %tid.z;\nmad.lo.u32 %i, %i, %r, %j;\n\
         mov.u32 %r, %ntid.y;\nmov.u32 %j, %tid.y;\nmad.lo.u32 %i, %i, %r, %j;\nmov.u32 %r, %ntid.x;\nmov.u32 %j, %tid.x;\n\
         mad.lo.u32 %i, %i, %r, %j;\nmad.wide.u32 %out, %i, 64, %out;\n"
        .to_owned();
    let names = [
        "tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z", "ctaid.x", "ctaid.y", "ctaid.z", "nctaid.x",
        "nctaid.y", "nctaid.z", "laneid", "warpid",
    ];
    for (i, name) in names.iter().enumerate() {
        text += &format!("mov.u32 %r, %{name};\nst.global.b32 [%out+{}], %r;\n", 4 * i);
    }
    let program = compile_text(&(text + "ret;\n}\n"));
    let (grid, block) = ([3u32, 2, 2], [5u32, 7, 2]);
    for options in all_options() {
        let mut device = Device::with(options);
        let out = device.zeros(12 * 70 * 16);
        emulator::exec::launch(&program, grid, block, &[out.into()], &device.memory, &options).unwrap();
        let got = device.download(out, 12 * 70 * 16);
        for (thread, got) in got.chunks_exact(16).enumerate() {
            let (b, t) = (thread as u32 / 70, thread as u32 % 70);
            let want = [t % 5, t / 5 % 7, t / 35, 5, 7, 2, b % 3, b / 3 % 2, b / 6, 3, 2, 2, t % 32, t / 32];
            assert_eq!(got[..14], want);
        }
    }
}

#[test]
fn atomics_return_the_old_value_and_lose_nothing() {
    for space in ["global", "shared"] {
        // Eight counters; every thread adds to one, and notes what it saw.
        let address = if space == "global" { "%c" } else { "%s" };
        let program = compile_text(&format!(
            ".visible .entry k(.param .u64 pcount, .param .u64 pseen) {{\n.reg .b64 %c, %seen, %w, %v;\n.reg .b32 %t, %i, %r, %s, %b;\n\
             .reg .pred %p;\n.shared .align 8 .b8 smem[32];\nld.param.u64 %c, [pcount];\nld.param.u64 %seen, [pseen];\n\
             mov.u32 %t, %tid.x;\nmov.u32 %b, %ctaid.x;\nmad.lo.u32 %b, %b, 96, %t;\nmad.wide.u32 %seen, %b, 4, %seen;\n\
             and.b32 %i, %t, 7;\nmad.wide.u32 %c, %i, 4, %c;\nmov.u32 %s, smem;\nmad.lo.u32 %s, %i, 4, %s;\n\
             setp.lt.u32 %p, %t, 8;\n@%p st.shared.u32 [%s], 0;\nbar.sync 0;\natom.{space}.add.u32 %r, [{address}], 1;\n\
             st.global.u32 [%seen], %r;\nbar.sync 0;\nld.shared.u32 %r, [%s];\n@%p atom.global.add.u32 %r, [%c], %r;\nret;\n}}\n"
        ));
        for options in all_options() {
            let mut device = Device::with(options);
            let (count, seen) = (device.zeros(8), device.zeros(96 * 4));
            device.launch(&program, 4, 96, &[count.into(), seen.into()]).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(device.download(count, 8), [96 * 4 / 8; 8]);
            let seen = device.download(seen, 96 * 4);
            for counter in 0..8 {
                // Within a block's shared counter, or over the whole grid for a global one, every value is seen once.
                let groups: Vec<&[u32]> = if space == "global" { vec![&seen[..]] } else { seen.chunks(96).collect() };
                for group in groups {
                    let mut values: Vec<u32> = group.iter().skip(counter).step_by(8).copied().collect();
                    values.sort_unstable();
                    assert!(values.iter().copied().eq(0..values.len() as u32), "{space} {values:?}");
                }
            }
        }
    }
}

#[test]
fn every_atomic_combines_as_named() {
    type Combine = fn(u64, u64, u64) -> u64;
    let min32: Combine = |x, a, _| (x as u32 as i32).min(a as u32 as i32) as u32 as u64;
    let max32: Combine = |x, a, _| (x as u32 as i32).max(a as u32 as i32) as u32 as u64;
    let min64: Combine = |x, a, _| (x as i64).min(a as i64) as u64;
    let cases: [(&str, &str, Combine); 20] = [
        ("add.u32", "b32", |x, a, _| u64::from((x as u32).wrapping_add(a as u32))),
        ("add.s32", "b32", |x, a, _| u64::from((x as u32).wrapping_add(a as u32))),
        ("add.u64", "b64", |x, a, _| x.wrapping_add(a)),
        ("min.u32", "b32", |x, a, _| x.min(a)),
        ("max.u32", "b32", |x, a, _| x.max(a)),
        ("min.s32", "b32", min32),
        ("max.s32", "b32", max32),
        ("min.u64", "b64", |x, a, _| x.min(a)),
        ("max.u64", "b64", |x, a, _| x.max(a)),
        ("min.s64", "b64", min64),
        ("and.b32", "b32", |x, a, _| x & a),
        ("or.b32", "b32", |x, a, _| x | a),
        ("xor.b32", "b32", |x, a, _| x ^ a),
        ("and.b64", "b64", |x, a, _| x & a),
        ("or.b64", "b64", |x, a, _| x | a),
        ("xor.b64", "b64", |x, a, _| x ^ a),
        ("exch.b32", "b32", |_, a, _| a),
        ("exch.b64", "b64", |_, a, _| a),
        ("cas.b32", "b32", |x, a, b| if x == a { b } else { x }),
        ("cas.b64", "b64", |x, a, b| if x == a { b } else { x }),
    ];
    let mut random = Random(9);
    for (op, reg, combine) in cases {
        for space in ["global", "shared"] {
            let (address, b) =
                (if space == "global" { "%x" } else { "%s" }, if op.starts_with("cas") { ", %b" } else { "" });
            let program = compile_text(&format!(
                ".visible .entry k(.param .u64 px) {{\n.reg .b64 %x;\n.reg .b32 %t, %s;\n.reg .{reg} %a, %b, %d;\n\
                 .shared .align 8 .b8 smem[256];\nld.param.u64 %x, [px];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %x, %t, 32, %x;\n\
                 mov.u32 %s, smem;\nmad.lo.u32 %s, %t, 8, %s;\nld.global.{reg} %d, [%x];\nst.shared.{reg} [%s], %d;\n\
                 ld.global.{reg} %a, [%x+8];\nld.global.{reg} %b, [%x+16];\natom.{space}.{op} %d, [{address}], %a{b};\n\
                 st.global.{reg} [%x+24], %d;\n{}ret;\n}}\n",
                if space == "shared" {
                    format!("ld.shared.{reg} %d, [%s];\nst.global.{reg} [%x], %d;\n")
                } else {
                    String::new()
                }
            ));
            let cut = |v: u64| if reg == "b32" { v & 0xffff_ffff } else { v };
            let operands: Vec<[u64; 3]> = (0..32)
                .map(|i| {
                    let x = cut(random.integer());
                    [x, if i % 3 == 0 { x } else { cut(random.integer()) }, cut(random.integer())]
                })
                .collect();
            let words: Vec<u32> = operands
                .iter()
                .flat_map(|o| [o[0], o[1], o[2], 0])
                .flat_map(|v| [v as u32, (v >> 32) as u32])
                .collect();
            for options in all_options() {
                let mut device = Device::with(options);
                let x = device.upload(&words);
                device.launch(&program, 1, 32, &[x.into()]).unwrap();
                let got = device.download(x, 256);
                for (&[x, a, b], got) in operands.iter().zip(got.chunks_exact(8)) {
                    let pair = |i: usize| u64::from(got[i]) | u64::from(got[i + 1]) << 32;
                    assert_eq!((pair(0), pair(6)), (combine(x, a, b), x), "{space} {op} {x:x} {a:x} {b:x}");
                }
            }
        }
    }
}

#[test]
fn async_copies_move_and_fill_with_zeros() {
    for bytes in [4u32, 8, 16] {
        let cache = if bytes == 16 { "cg" } else { "ca" };
        let program = compile_text(&format!(
            ".visible .entry k(.param .u64 pin, .param .u64 pout, .param .u64 psize) {{\n.reg .b64 %in, %out, %size;\n.reg .b32 %t, %s, %n, %r;\n\
             .shared .align 16 .b8 smem[1024];\nld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\nld.param.u64 %size, [psize];\n\
             mov.u32 %t, %tid.x;\nmad.wide.u32 %in, %t, {bytes}, %in;\nmad.wide.u32 %size, %t, 4, %size;\nld.global.u32 %n, [%size];\n\
             mov.u32 %s, smem;\nmad.lo.u32 %s, %t, {bytes}, %s;\ncp.async.{cache}.shared.global [%s], [%in], {bytes}, %n;\n\
             cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nmov.u32 %s, smem;\nmad.lo.u32 %s, %t, 4, %s;\n\
             mad.wide.u32 %out, %t, 4, %out;\n{}ret;\n}}\n",
            (0..bytes / 4)
                .map(|i| format!("ld.shared.b32 %r, [%s+{}];\nst.global.b32 [%out+{}], %r;\n", 256 * i, 256 * i))
                .collect::<String>()
        ));
        let mut random = Random(u64::from(bytes));
        let data: Vec<u32> = (0..64 * bytes / 4).map(|_| random.next() as u32).collect();
        let sizes: Vec<u32> = (0..64).map(|i| if i < 32 { bytes } else { i % (bytes + 1) }).collect();
        for options in all_options() {
            let mut device = Device::with(options);
            let (pin, pout, psize) = (device.upload(&data), device.zeros(data.len()), device.upload(&sizes));
            device.launch(&program, 1, 64, &[pin.into(), pout.into(), psize.into()]).unwrap();
            let got: Vec<u8> = device.download(pout, data.len()).into_iter().flat_map(u32::to_le_bytes).collect();
            let mut want: Vec<u8> = data.iter().flat_map(|w| w.to_le_bytes()).collect();
            for (lane, chunk) in want.chunks_exact_mut(bytes as usize).enumerate() {
                chunk[sizes[lane] as usize..].fill(0);
            }
            assert_eq!(got, want);
        }
    }
}
