//! Mutated kernels: whatever still parses is compiled and run, and nothing panics or hangs.

use crate::device::{Device, Random, hopper};
use crate::kernels::{gemm, rms_norm};
use emulator::exec::{Arg, CheckOptions, ExecError, ExecOptions, Limits, Program};
use emulator::simd::Level;
use ptx::ast::Module;

/// A kernel with one of nearly everything.
const MIXED: &str = ".version 7.0
.target sm_80
.address_size 64
.visible .entry mixed(.param .u64 p, .param .u32 n)
{
	.reg .pred %p<4>;
	.reg .b16 %h<4>;
	.reg .b32 %r<12>;
	.reg .b64 %w<4>;
	.reg .f32 %f<6>;
	.reg .f64 %d<3>;
	.shared .align 16 .b8 smem[512];
	ld.param.u64 %w0, [p];
	ld.param.u32 %r0, [n];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, smem;
	mad.wide.u32 %w1, %r1, 16, %w0;
	ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%w1];
	mad.lo.u32 %r7, %r1, 16, %r2;
	st.shared.v4.b32 [%r7], {%r3, %r4, %r5, %r6};
	bar.sync 0;
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [%r7];
	setp.lt.u32 %p0, %r1, %r0;
	@%p0 bra SKIP;
	add.u32 %r8, %r3, 7;
	xor.b32 %r9, %r8, %r4;
	div.u32 %r9, %r9, 3;
	bra JOIN;
SKIP:
	shl.b32 %r8, %r3, %r1;
	bfe.u32 %r9, %r8, 3, 9;
JOIN:
	mov.b32 %f0, %r8;
	mov.b32 %f1, %r9;
	fma.rn.f32 %f2, %f0, %f1, %f0;
	add.rn.ftz.f32 %f2, %f2, %f1;
	rsqrt.approx.ftz.f32 %f3, %f2;
	max.f32 %f3, %f3, %f2;
	cvt.rn.bf16x2.f32 %r10, %f3, %f2;
	cvt.f64.f32 %d0, %f3;
	add.rn.f64 %d1, %d0, %d0;
	cvt.rn.f32.f64 %f4, %d1;
	setp.gtu.f32 %p1, %f4, %f3;
	selp.b32 %r10, %r10, %r9, %p1;
	shfl.sync.bfly.b32 %r11|%p2, %r10, 5, 0x1f, 0xffffffff;
	vote.sync.ballot.b32 %r9, %p2, 0xffffffff;
	prmt.b32 %r11, %r11, %r9, 0x5410;
	mov.b32 {%h0, %h1}, %r11;
	mul.wide.u16 %r9, %h0, %h1;
	popc.b32 %r10, %r9;
	cp.async.ca.shared.global [%r7], [%w1], 8;
	cp.async.commit_group;
	cp.async.wait_group 0;
	bar.sync 1;
	ld.shared.b32 %r8, [%r7];
	atom.shared.add.u32 %r8, [%r2], %r8;
	atom.global.max.u32 %r8, [%w0], %r8;
	bar.warp.sync 0xffffffff;
	st.global.v2.b32 [%w1], {%r8, %r10};
	exit;
}
";

fn mutate(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(lines.len() as u64) as usize;
        let other = random.below(lines.len() as u64) as usize;
        match random.below(7) {
            0 => {
                lines.remove(at);
            }
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            // A number becomes another one.
            3 | 4 => {
                let digits: Vec<usize> =
                    lines[at].char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(i, _)| i).collect();
                if let Some(&i) = digits.get(random.below(digits.len().max(1) as u64) as usize) {
                    let new = ["0", "1", "3", "7", "31", "4294967295", "65536", "-1"][random.below(8) as usize];
                    lines[at].replace_range(i..=i, new);
                }
            }
            // An operand of another line.
            5 => {
                let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                let (mut own, theirs) = (words(&lines[at]), words(&lines[other]));
                if !own.is_empty() && !theirs.is_empty() {
                    let i = random.below(own.len() as u64) as usize;
                    own[i] = theirs[random.below(theirs.len() as u64) as usize].clone();
                    lines[at] = own.join(" ");
                }
            }
            // A guard.
            _ => {
                let guard = ["@%p0 ", "@!%p1 ", "@%p2 "][random.below(3) as usize];
                if lines[at].trim_end().ends_with(';') && !lines[at].contains('@') {
                    lines[at] = format!("{guard}{}", lines[at].trim_start());
                }
            }
        }
        if lines.is_empty() {
            break;
        }
    }
    lines.join("\n")
}

#[test]
fn mutated_kernels_neither_panic_nor_hang() {
    let seeds =
        [MIXED.to_owned(), ptx::print(&Module::new(vec![gemm()])), ptx::print(&Module::new(vec![rms_norm(256)]))];
    let mut random = Random(21);
    let (mut compiled, mut ran, mut faulted) = (0, 0, 0);
    for round in 0..6000 {
        let text = mutate(&seeds[[0, 0, 0, 1, 2][round % 5]], &mut random);
        let Ok(module) = ptx::parse(&text) else { continue };
        let Some(kernel) = module.kernels.first() else { continue };
        let Ok(program) = Program::compile(&module, &kernel.name, hopper()) else { continue };
        compiled += 1;
        let mut device = Device::new();
        device.options = ExecOptions {
            threads: 1 + round % 2,
            simd: Level::available().nth(round % Level::available().count()).unwrap_or(Level::Portable),
            check: (round % 3 == 0).then_some(CheckOptions { seed: round as u64 }),
            limits: Limits { instructions: 20_000 },
        };
        let buffer = device.upload(&(0..4096u32).map(|i| i.wrapping_mul(0x0101_0101)).collect::<Vec<u32>>());
        let args: Vec<Arg> = kernel
            .params
            .iter()
            .map(|p| match p.ty.bytes() {
                1 => Arg::U8(9),
                2 => Arg::U16(9),
                4 => Arg::U32(64),
                _ => Arg::U64(buffer),
            })
            .collect();
        match device.launch(&program, 2, [32, 64, 128][round % 3], &args) {
            Ok(_) => ran += 1,
            Err(ExecError::Argument { .. } | ExecError::Geometry { .. }) => {}
            Err(error) => {
                // A fault can say what it is.
                assert!(error.to_string().contains(&kernel.name), "{error}");
                faulted += 1;
            }
        }
    }
    assert!(compiled > 600 && ran > 100 && faulted > 100, "{compiled} compiled, {ran} ran, {faulted} faulted");
}
