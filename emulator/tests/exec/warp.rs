//! Instructions that the lanes of a warp execute together.

use crate::device::{Device, Random, all_options, compile, compile_text, hopper};
use emulator::format::Elem;
use emulator::mma::{Instruction, M16N8K16, Operation, Types};
use ptx::builder::{F32, KernelBuilder, R32};

/// `shfl`: modes, clamps and segments as PTX ISA 9.7.8.6 has them, one lane at a time.
#[test]
fn shuffles_take_the_lane_that_the_isa_names() {
    for mode in ["up", "down", "bfly", "idx"] {
        for c in [0x1f, 0, 0x0f, 0x181f, 0x1c1f, 0x1000, 0x0f0f] {
            for b in [0i32, 1, 2, 5, 16, 31] {
                let program = compile_text(&format!(
                    ".visible .entry k(.param .u64 pout) {{\n.reg .b64 %out;\n.reg .b32 %t, %v, %d, %q;\n.reg .pred %p;\n\
                     ld.param.u64 %out, [pout];\nmov.u32 %t, %tid.x;\nmad.lo.u32 %v, %t, 3, 100;\n\
                     shfl.sync.{mode}.b32 %d|%p, %v, {b}, {c}, 0xffffffff;\nselp.b32 %q, 1, 0, %p;\n\
                     mad.wide.u32 %out, %t, 8, %out;\nst.global.v2.b32 [%out], {{%d, %q}};\nret;\n}}\n"
                ));
                for options in all_options() {
                    let mut device = Device::with(options);
                    let out = device.zeros(64);
                    device.launch(&program, 1, 32, &[out.into()]).unwrap();
                    let got = device.download(out, 64);
                    for lane in 0..32i32 {
                        let (clamp, segment) = (c & 0x1f, c >> 8 & 0x1f);
                        let max_lane = lane & segment | clamp & !segment;
                        let (j, inside) = match mode {
                            "up" => (lane - b, lane - b >= max_lane),
                            "down" => (lane + b, lane + b <= max_lane),
                            "bfly" => (lane ^ b, lane ^ b <= max_lane),
                            _ => {
                                let j = lane & segment | b & !segment;
                                (j, j <= max_lane)
                            }
                        };
                        let from = if inside { j } else { lane };
                        let got = &got[2 * lane as usize..][..2];
                        assert_eq!(
                            got,
                            [100 + 3 * from as u32, u32::from(inside)],
                            "{mode} c={c:#x} b={b} lane {lane}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_shuffle_among_half_the_warp_needs_only_that_half() {
    let program = compile_text(
        ".visible .entry k(.param .u64 pout) {\n.reg .b64 %out;\n.reg .b32 %t, %d;\n.reg .pred %p;\nld.param.u64 %out, [pout];\n\
         mov.u32 %t, %tid.x;\nmov.u32 %d, 7;\nsetp.ge.u32 %p, %t, 16;\n@%p bra END;\n\
         shfl.sync.bfly.b32 %d, %t, 3, 0x1f, 0xffff;\nEND:\nmad.wide.u32 %out, %t, 4, %out;\nst.global.b32 [%out], %d;\nret;\n}\n",
    );
    for options in all_options() {
        let mut device = Device::with(options);
        let out = device.zeros(32);
        device.launch(&program, 1, 32, &[out.into()]).unwrap();
        for (i, got) in device.download(out, 32).into_iter().enumerate() {
            assert_eq!(got, if i < 16 { i as u32 ^ 3 } else { 7 });
        }
    }
}

#[test]
fn votes_count_the_lanes_that_take_part() {
    // Lanes 0..20 exist; thread t votes whether its bit of the parameter is set.
    let program = compile_text(
        ".visible .entry k(.param .u64 pout, .param .u32 pbits) {\n.reg .b64 %out;\n.reg .b32 %t, %b, %d, %q;\n.reg .pred %p, %r;\n\
         ld.param.u64 %out, [pout];\nld.param.u32 %b, [pbits];\nmov.u32 %t, %tid.x;\nshr.u32 %b, %b, %t;\nand.b32 %b, %b, 1;\n\
         setp.ne.u32 %p, %b, 0;\nmad.wide.u32 %out, %t, 32, %out;\n\
         vote.sync.ballot.b32 %d, %p, 0xfffff;\nst.global.b32 [%out], %d;\n\
         vote.sync.ballot.b32 %d, !%p, 0xfffff;\nst.global.b32 [%out+4], %d;\n\
         vote.sync.all.pred %r, %p, 0xfffff;\nselp.b32 %q, 1, 0, %r;\nst.global.b32 [%out+8], %q;\n\
         vote.sync.any.pred %r, %p, 0xfffff;\nselp.b32 %q, 1, 0, %r;\nst.global.b32 [%out+12], %q;\n\
         vote.sync.uni.pred %r, %p, 0xfffff;\nselp.b32 %q, 1, 0, %r;\nst.global.b32 [%out+16], %q;\nret;\n}\n",
    );
    for options in all_options() {
        for bits in [0u32, 0xfffff, 0x12345, 1 << 19, 0xfff0_0000] {
            let mut device = Device::with(options);
            let out = device.zeros(32 * 8);
            device.launch(&program, 1, 20, &[out.into(), bits.into()]).unwrap();
            let votes = bits & 0xfffff;
            let (all, any) = (votes == 0xfffff, votes != 0);
            let want = [votes, votes ^ 0xfffff, u32::from(all), u32::from(any), u32::from(all || !any)];
            for (i, got) in device.download(out, 32 * 8).chunks_exact(8).enumerate() {
                assert_eq!(got[..5], if i < 20 { want } else { [0; 5] });
            }
        }
    }
}

/// `ldmatrix`: lane `l` gets elements `(l / 4, 2 (l % 4) ..)` of matrix `i` in register `i`, of the transpose with `.trans`.
#[test]
fn ldmatrix_distributes_rows_given_by_the_lanes() {
    for trans in [false, true] {
        for count in [1usize, 2, 4] {
            let list = ["{%a}", "{%a, %b}", "", "{%a, %b, %c, %d}"][count - 1];
            let dot = if trans { ".trans" } else { "" };
            let stores: String = ["%a", "%b", "%c", "%d"][..count]
                .iter()
                .enumerate()
                .map(|(i, r)| format!("st.global.b32 [%out+{}], {r};\n", 4 * i))
                .collect();
            let program = compile_text(&format!(
                ".visible .entry k(.param .u64 pin, .param .u64 prow, .param .u64 pout) {{\n.reg .b64 %in, %row, %out;\n\
                 .reg .b32 %t, %s, %r, %a, %b, %c, %d;\n.shared .align 16 .b8 smem[512];\nld.param.u64 %in, [pin];\n\
                 ld.param.u64 %row, [prow];\nld.param.u64 %out, [pout];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %in, %t, 16, %in;\n\
                 ld.global.v4.b32 {{%a, %b, %c, %d}}, [%in];\nmov.u32 %s, smem;\nmad.lo.u32 %r, %t, 16, %s;\n\
                 st.shared.v4.b32 [%r], {{%a, %b, %c, %d}};\nbar.warp.sync 0xffffffff;\nmad.wide.u32 %row, %t, 4, %row;\n\
                 ld.global.u32 %r, [%row];\nmad.lo.u32 %r, %r, 16, %s;\n\
                 ldmatrix.sync.aligned.m8n8.x{count}{dot}.shared.b16 {list}, [%r];\nmad.wide.u32 %out, %t, 16, %out;\n{stores}ret;\n}}\n"
            ));
            let mut random = Random(count as u64);
            let data: Vec<u32> = (0..128).map(|_| random.u32()).collect();
            let rows: Vec<u32> = (0..32).map(|i| (i * 7 + 3) % 32).collect();
            let element = |matrix: usize, r: usize, c: usize| {
                let row = rows[8 * matrix + r] as usize;
                data[4 * row + c / 2] >> (16 * (c % 2)) & 0xffff
            };
            for options in all_options() {
                let mut device = Device::with(options);
                let (pin, prow, out) = (device.upload(&data), device.upload(&rows), device.zeros(128));
                device.launch(&program, 1, 32, &[pin.into(), prow.into(), out.into()]).unwrap();
                let got = device.download(out, 128);
                for lane in 0..32 {
                    for matrix in 0..count {
                        let (r, c) = (lane / 4, 2 * (lane % 4));
                        let at = |c| if trans { element(matrix, c, r) } else { element(matrix, r, c) };
                        assert_eq!(
                            got[4 * lane + matrix],
                            at(c) | at(c + 1) << 16,
                            "x{count} trans {trans} lane {lane}"
                        );
                    }
                }
            }
        }
    }
}

/// One warp multiplies 16 x 16 by 16 x 8; the fragment layout is that of PTX ISA 9.7.13.4.8, the sum the profile's reference.
#[test]
fn mma_multiplies_the_fragments_that_the_isa_lays_out() {
    let mut k = KernelBuilder::new("mma");
    let (pa, pb, pc, pd) = (k.param_ptr("a"), k.param_ptr("b"), k.param_ptr("c"), k.param_ptr("d"));
    let lane = k.lane_id();
    let (g, t) = (k.shr_u32(lane, 2), k.and_b32(lane, 3));
    // Words of two bf16: A is [16][8] of them by rows, B^T is [8][8].
    let word = k.mad_lo_u32(g, 8, t);
    let (at_a, at_b) = (k.mad_wide_u32(word, 4, pa), k.mad_wide_u32(word, 4, pb));
    let a: [R32; 4] = [0, 8 * 8 * 4, 16, 8 * 8 * 4 + 16].map(|offset| k.ld_global(at_a, offset));
    let b: [R32; 2] = [0, 16].map(|offset| k.ld_global(at_b, offset));
    let pair = k.mul_lo_u32(t, 2);
    let pair = k.mad_lo_u32(g, 8, pair);
    let (at_c, at_d) = (k.mad_wide_u32(pair, 4, pc), k.mad_wide_u32(pair, 4, pd));
    let c: [F32; 4] = [0, 4, 8 * 8 * 4, 8 * 8 * 4 + 4].map(|offset| k.ld_global(at_c, offset));
    let d = k.mma_m16n8k16_bf16(a, b, c);
    for (d, offset) in d.into_iter().zip([0, 4, 8 * 8 * 4, 8 * 8 * 4 + 4]) {
        k.st_global(at_d, offset, d);
    }
    let program = compile(k.finish());

    let instruction = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
    let Operation::TFdpa(reference) = hopper().mma(&instruction).unwrap() else { panic!("{instruction}") };
    let mut random = Random(3);
    for options in all_options() {
        let mut bf16 = |n: usize| -> Vec<u32> {
            (0..n).map(|_| (random.u32() & 0x8000 | (0x3f00 + (random.u32() & 0x1ff))) & 0xffff).collect()
        };
        let (a, b) = (bf16(256), bf16(128));
        let c: Vec<u32> = (0..128).map(|_| random.u32() & 0x80ff_ffff | 0x3f00_0000).collect();
        let pack = |v: &[u32]| v.chunks_exact(2).map(|p| p[0] | p[1] << 16).collect::<Vec<u32>>();
        let mut device = Device::with(options);
        let args = [device.upload(&pack(&a)), device.upload(&pack(&b)), device.upload(&c), device.zeros(128)];
        let stats = device.launch(&program, 1, 32, &args.map(Into::into)).unwrap();
        assert_eq!(stats.mmas, 1);
        for (i, got) in device.download(args[3], 128).into_iter().enumerate() {
            let (row, column) = (i / 8, i % 8);
            let want = reference.dot(&a[16 * row..][..16], &b[16 * column..][..16], c[i]);
            assert_eq!(got, want, "row {row} column {column} {options:?}");
        }
    }
}
