//! 16-bit floats, pairs and narrow conversions from PTX text, against `emulator::scalar`: each over every pattern of 16 bits of its first
//! operand, whose other bits and whose further operands are random.

use crate::device::{Device, Random, compile_for};
use emulator::exec::{ExecError, ExecOptions, Program};
use emulator::format::narrow_f32;
use emulator::profile::{Profile, Underflow};
use emulator::scalar::{
    self, Bf16, Bf16x2, Compare, F16, F16x2, F32, F32x2, Ieee, Int, MinMax, Mods, Narrow, Packed, Rounding,
    ScaleRounding, Signs,
};
use emulator::simd::Level;

const BLACKWELL: (&str, &str) = (".version 8.7\n.target sm_100", "sm_100");

fn blackwell(text: &str) -> Program {
    compile_for(BLACKWELL.0, Profile::by_name(BLACKWELL.1).expect("the profile exists"), text)
}

/// Cells of four 64-bit words: three operands and the result.
fn kernel(op: &str, d: &str, sources: &[&str]) -> String {
    let mut text = format!(
        ".visible .entry k(.param .u64 pin) {{\n.reg .b64 %in;\n.reg .b32 %t, %n, %c;\n.reg .{d} %d;\n.reg .pred %p;\n.reg .b32 %o;\n"
    );
    for (i, ty) in sources.iter().enumerate() {
        text += &format!(".reg .{ty} %s{i};\n");
    }
    text += "ld.param.u64 %in, [pin];\nmov.u32 %t, %tid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %c, %ctaid.x;\n";
    text += "mad.lo.u32 %t, %c, %n, %t;\nmad.wide.u32 %in, %t, 32, %in;\n";
    for (i, ty) in sources.iter().enumerate() {
        text += &format!("ld.global.{ty} %s{i}, [%in+{}];\n", 8 * i);
    }
    let operands: Vec<String> = (0..sources.len()).map(|i| format!("%s{i}")).collect();
    if op.starts_with("setp") {
        text += &format!("{op} %p, {};\nselp.b32 %o, 1, 0, %p;\nst.global.b32 [%in+24], %o;\n", operands.join(", "));
    } else {
        text += &format!("{op} %d, {};\nst.global.{d} [%in+24], %d;\n", operands.join(", "));
    }
    text + "ret;\n}\n"
}

/// Runs `op d, a, b, c` and compares with `want`. Operands that are f32 have ordinary sizes as often as any.
fn check(op: &str, d: &str, sources: &[&str], want: impl Fn(&[u64]) -> u64) {
    let program = blackwell(&kernel(op, d, sources));
    let mut random = Random(op.bytes().fold(7, |h: u64, b| h.wrapping_mul(31).wrapping_add(u64::from(b))));
    let mut operand = |i: usize, pattern: u64| {
        let r = random.next();
        match sources[i] {
            // Around the sizes that narrow formats have, or any.
            "f32" if r & 3 != 0 => r >> 32 & 0x80ff_ffff | (90 + (r >> 8) % 70) << 23,
            "f32" => r >> 32,
            _ if i == 0 => r << 16 | pattern,
            // Often as the first, so that sums cancel and comparisons tie.
            _ if r & 7 == 0 => pattern << 16 | pattern ^ (r >> 8 & 0x8000),
            _ => r >> 16,
        }
    };
    let cells: Vec<[u64; 4]> =
        (0..0x1_0000).map(|p| std::array::from_fn(|i| if i < sources.len() { operand(i, p) } else { 0 })).collect();
    let words: Vec<u32> = cells.iter().flatten().flat_map(|v| [*v as u32, (*v >> 32) as u32]).collect();
    let portable = ExecOptions { simd: Level::Portable, threads: 1, ..ExecOptions::default() };
    for options in [ExecOptions::default(), portable] {
        let mut device = Device::with(options);
        let at = device.upload(&words);
        device.launch(&program, 256, 256, &[at.into()]).unwrap_or_else(|e| panic!("{op}: {e}"));
        let got = device.download(at, words.len());
        for (cell, got) in cells.iter().zip(got.chunks_exact(8)) {
            let got = u64::from(got[6]) | u64::from(got[7]) << 32;
            let bits = |ty: &str| ty.trim_start_matches(char::is_alphabetic).parse::<u32>().unwrap_or(64);
            let cut: Vec<u64> = cell.iter().zip(sources).map(|(v, ty)| v & (u64::MAX >> (64 - bits(ty)))).collect();
            assert_eq!(got, want(&cut), "{op} {cut:x?}");
        }
    }
}

fn one(f: impl Fn(&[u16]) -> u16) -> impl Fn(&[u64]) -> u64 {
    move |s| f(&s.iter().map(|&x| x as u16).collect::<Vec<_>>()).into()
}

fn two(f: impl Fn(&[u32]) -> u32) -> impl Fn(&[u64]) -> u64 {
    move |s| f(&s.iter().map(|&x| x as u32).collect::<Vec<_>>()).into()
}

/// Arithmetic of one 16-bit type and of its pairs, with the modifiers that it has.
fn arithmetic<F: Ieee<Bits = u16>, P: Packed<Bits = u32, Element = F>>(name: &str, all_mods: &[(&str, Mods)]) {
    let (h, w) = (["b16"; 3], ["b32"; 3]);
    for &(suffix, mods) in all_mods {
        for (op, f) in [
            ("add", scalar::add::<F> as fn(u16, u16, Mods) -> u16),
            ("sub", scalar::sub::<F>),
            ("mul", scalar::mul::<F>),
        ] {
            check(&format!("{op}.rn{suffix}.{name}"), "b16", &h[..2], one(|s| f(s[0], s[1], mods)));
            let pair = two(|s| scalar::zip::<P>(s[0], s[1], |a, b| f(a, b, mods)));
            check(&format!("{op}.rn{suffix}.{name}x2"), "b32", &w[..2], pair);
        }
        check(&format!("fma.rn{suffix}.{name}"), "b16", &h, one(|s| scalar::fma::<F>(s[0], s[1], s[2], mods)));
        let pair = two(|s| scalar::fma_x2::<P>(s[0], s[1], s[2], mods));
        check(&format!("fma.rn{suffix}.{name}x2"), "b32", &w, pair);
        if !mods.sat {
            let f = |s: &[u32]| scalar::map::<P>(scalar::fma_x2::<P>(s[0], s[1], s[2], mods), scalar::relu::<F>);
            check(&format!("fma.rn{suffix}.relu.{name}x2"), "b32", &w, two(f));
        }
    }
}

#[test]
fn halves_and_their_pairs() {
    let ftz = ("", Mods::RN);
    let sat = (".sat", Mods { sat: true, ..Mods::RN });
    arithmetic::<F16, F16x2>(
        "f16",
        &[ftz, (".ftz", Mods::RN_FTZ), sat, (".ftz.sat", Mods { sat: true, ..Mods::RN_FTZ })],
    );
    arithmetic::<Bf16, Bf16x2>("bf16", &[("", Mods::RN)]);
}

#[test]
fn minimum_maximum_sign_and_comparison() {
    for nan in [false, true] {
        for xorsign in [false, true] {
            let signs = if xorsign { Signs::Xored } else { Signs::Kept };
            let mods = MinMax { nan, ftz: false, signs };
            let suffix = format!("{}{}", if nan { ".NaN" } else { "" }, if xorsign { ".xorsign.abs" } else { "" });
            let h = ["b16", "b16"];
            check(&format!("min{suffix}.f16"), "b16", &h, one(|s| scalar::min_with::<F16>(s[0], s[1], mods)));
            check(&format!("max{suffix}.bf16"), "b16", &h, one(|s| scalar::max_with::<Bf16>(s[0], s[1], mods)));
            let pair = |s: &[u32]| scalar::zip::<F16x2>(s[0], s[1], |a, b| scalar::max_with::<F16>(a, b, mods));
            check(&format!("max{suffix}.f16x2"), "b32", &["b32", "b32"], two(pair));
            check(&format!("min{suffix}.f32"), "f32", &["f32", "f32"], |s| {
                scalar::min_with::<F32>(s[0] as u32, s[1] as u32, mods).into()
            });
        }
    }
    check("neg.ftz.f16", "b16", &["b16"], one(|s| scalar::neg::<F16>(s[0], true)));
    check("abs.bf16x2", "b32", &["b32"], two(|s| scalar::map::<Bf16x2>(s[0], |a| scalar::abs::<Bf16>(a, false))));
    for (name, cmp) in [("lt", Compare::Lt), ("equ", Compare::Equ), ("nan", Compare::Nan), ("ge", Compare::Ge)] {
        check(&format!("setp.{name}.f16"), "b32", &["b16", "b16"], |s| {
            scalar::compare::<F16>(cmp, s[0] as u16, s[1] as u16, false).into()
        });
        check(&format!("setp.{name}.bf16"), "b32", &["b16", "b16"], |s| {
            scalar::compare::<Bf16>(cmp, s[0] as u16, s[1] as u16, false).into()
        });
    }
}

#[test]
fn pairs_of_f32_and_mixed_precision() {
    let wide = ["b64"; 3];
    let rz = Mods::RN.with_rounding(Rounding::TowardZero);
    check("add.rz.f32x2", "b64", &wide[..2], |s| scalar::add_x2::<F32x2>(s[0], s[1], rz));
    check("mul.rn.ftz.f32x2", "b64", &wide[..2], |s| scalar::mul_x2::<F32x2>(s[0], s[1], Mods::RN_FTZ));
    check("fma.rn.f32x2", "b64", &wide, |s| scalar::fma_x2::<F32x2>(s[0], s[1], s[2], Mods::RN));
    let up = Mods::RN.with_rounding(Rounding::Up);
    check("fma.rp.f32.bf16", "f32", &["b16", "b16", "f32"], |s| {
        scalar::fma_mixed::<Bf16>(s[0] as u16, s[1] as u16, s[2] as u32, up).into()
    });
    check("add.rn.f32.f16", "f32", &["b16", "f32"], |s| {
        scalar::add_mixed::<F16>(s[0] as u16, s[1] as u32, Mods::RN).into()
    });
    let sat = Mods { sat: true, ..Mods::RN };
    check("sub.rn.sat.f32.bf16", "f32", &["b16", "f32"], |s| {
        scalar::sub_mixed::<Bf16>(s[0] as u16, s[1] as u32, sat).into()
    });
}

const NARROW: [(&str, Narrow); 5] = [
    ("e4m3x2", Narrow::E4m3),
    ("e5m2x2", Narrow::E5m2),
    ("e3m2x2", Narrow::E3m2),
    ("e2m3x2", Narrow::E2m3),
    ("e2m1x2", Narrow::E2m1),
];

#[test]
fn narrow_conversions() {
    for (name, narrow) in NARROW {
        let register = if narrow == Narrow::E2m1 { "b8" } else { "b16" };
        for relu in [false, true] {
            let suffix = if relu { ".relu" } else { "" };
            let pack = |hi: u8, lo: u8| u64::from(scalar::pack_narrow(narrow, hi, lo));
            check(&format!("cvt.rn.satfinite{suffix}.{name}.f32"), register, &["f32", "f32"], |s| {
                pack(scalar::to_narrow(s[0] as u32, narrow, relu), scalar::to_narrow(s[1] as u32, narrow, relu))
            });
            check(&format!("cvt.rn.satfinite{suffix}.{name}.f16x2"), register, &["b32"], |s| {
                let half = |x: u64| scalar::half_to_narrow::<F16>(x as u16, narrow, relu);
                pack(half(s[0] >> 16), half(s[0]))
            });
            check(&format!("cvt.rn.satfinite{suffix}.{name}.bf16x2"), register, &["b32"], |s| {
                let half = |x: u64| scalar::half_to_narrow::<Bf16>(x as u16, narrow, relu);
                pack(half(s[0] >> 16), half(s[0]))
            });
            let widened = |s: &[u64], f: &dyn Fn(u8) -> u16| {
                let [hi, lo] = scalar::unpack_narrow(narrow, s[0] as u16);
                u64::from(f(hi)) << 16 | u64::from(f(lo))
            };
            check(&format!("cvt.rn{suffix}.f16x2.{name}"), "b32", &[register], |s| {
                widened(s, &|x| {
                    let half = scalar::narrow_to_f16(x, narrow);
                    if relu { scalar::relu::<F16>(half) } else { half }
                })
            });
            check(&format!("cvt.rn{suffix}.bf16x2.{name}"), "b32", &[register], |s| {
                widened(s, &|x| {
                    let half = scalar::narrow_to_bf16(x, narrow);
                    if relu { scalar::relu::<Bf16>(half) } else { half }
                })
            });
        }
    }
}

#[test]
fn scales_and_16_bit_conversions() {
    for (name, rounding) in [("rz", ScaleRounding::TowardZero), ("rp", ScaleRounding::Up)] {
        for satfinite in [false, true] {
            let suffix = if satfinite { ".satfinite" } else { "" };
            check(&format!("cvt.{name}{suffix}.ue8m0x2.f32"), "b16", &["f32", "f32"], |s| {
                let scale = |x: u64| u64::from(scalar::to_ue8m0(x as u32, rounding, satfinite));
                scale(s[0]) << 8 | scale(s[1])
            });
            check(&format!("cvt.{name}{suffix}.ue8m0x2.bf16x2"), "b16", &["b32"], |s| {
                let scale = |x: u64| u64::from(scalar::bf16_to_ue8m0(x as u16, rounding, satfinite));
                scale(s[0] >> 16) << 8 | scale(s[0])
            });
        }
    }
    check("cvt.rn.bf16x2.ue8m0x2", "b32", &["b16"], |s| {
        u64::from(scalar::ue8m0_to_bf16((s[0] >> 8) as u8)) << 16 | u64::from(scalar::ue8m0_to_bf16(s[0] as u8))
    });
    check("cvt.f32.bf16", "f32", &["b16"], |s| {
        let nan = s[0] & 0x7fff > 0x7f80;
        if nan { 0x7fff_ffff } else { s[0] << 16 }
    });
    check("cvt.rzi.s16.bf16", "b16", &["b16"], |s| {
        scalar::to_int::<Bf16>(s[0] as u16, Int { bits: 16, signed: true }, Rounding::TowardZero, false) & 0xffff
    });
    check("cvt.rn.bf16.s16", "b16", &["b16"], |s| {
        scalar::from_int::<Bf16>(s[0], Int { bits: 16, signed: true }, Mods::RN).into()
    });
    check("cvt.rz.satfinite.relu.f16x2.f32", "b32", &["f32", "f32"], |s| {
        let rz = Mods::RN.with_rounding(Rounding::TowardZero);
        let half = |x: u64| u64::from(scalar::relu::<F16>(scalar::convert_satfinite::<F32, F16>(x as u32, rz)));
        half(s[0]) << 16 | half(s[1])
    });
    check("cvt.rn.satfinite.bf16.f32", "b16", &["f32"], |s| {
        scalar::convert_satfinite::<F32, Bf16>(s[0] as u32, Mods::RN).into()
    });
    // TF32, by the format's own rounding: what overflows stays finite.
    check("cvt.rn.satfinite.tf32.f32", "b32", &["f32"], |s| {
        if s[0] & 0x7fff_ffff > 0x7f80_0000 {
            return scalar::f32_to_tf32(s[0] as u32, Rounding::NearestEven).into();
        }
        let tf32 = emulator::format::Elem::Tf32.format();
        narrow_f32(s[0] as u32, tf32, Rounding::NearestEven, emulator::round::Overflow::Saturate)
    });
}

#[test]
fn bytes_go_into_registers_and_out_again() {
    let text = ".visible .entry k(.param .u64 pin) {\n.reg .b64 %in;\n.reg .b32 %a, %d;\n.reg .b16 %h;\n.reg .b8 %b0, %b1, %b2, %b3;\n\
                ld.param.u64 %in, [pin];\nld.global.b32 %a, [%in];\nmov.b32 {%b0, %b1, %b2, %b3}, %a;\n\
                mov.b32 %d, {%b3, %b2, %b1, %b0};\nst.global.b32 [%in], %d;\n\
                mov.b16 %h, {%b2, %b0};\nst.global.b16 [%in+4], %h;\nret;\n}\n";
    let mut device = Device::new();
    let at = device.upload(&[0x0123_4567, 0]);
    device.launch(&blackwell(text), 1, 1, &[at.into()]).unwrap();
    assert_eq!(device.download(at, 2), [0x6745_2301, 0x6723]);
}

#[test]
fn what_nobody_has_described_is_refused_with_its_probe() {
    let text = kernel("cvt.rs.f16x2.f32", "b32", &["f32", "f32", "b32"]);
    let module =
        ptx::parse(&format!("{}\n.address_size 64\n{text}", BLACKWELL.0)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let profile = Profile::by_name(BLACKWELL.1).expect("the profile exists");
    let error: ExecError = Program::compile(&module, "k", profile).unwrap_err();
    assert!(error.to_string().contains("cvt.rs of packed results"), "{error}");
}

#[test]
fn an_older_header_refuses_younger_instructions() {
    for (op, d, sources) in [("add.rn.bf16", "b16", ["b16"; 2]), ("cvt.rn.satfinite.e4m3x2.f32", "b16", ["f32"; 2])] {
        let text = format!(".version 7.0\n.target sm_80\n.address_size 64\n{}", kernel(op, d, &sources));
        let error = ptx::parse(&text).expect_err("the header is too old").to_string();
        assert!(error.contains("needs .version"), "{error}");
    }
}

/// Matrix instructions of every accumulator and operand type that has a layout, against the reference by registers.
#[test]
fn matrix_instructions_of_every_type() {
    use emulator::format::Elem;
    use emulator::mma::{Shape, Types, WarpMma};
    // Profile, PTX version, k, types of A, B and the accumulator, registers of the result and their type.
    type Case = (&'static str, &'static str, u32, [Elem; 3], usize, &'static str);
    let cases: [Case; 8] = [
        ("sm_90", "8.4", 32, [Elem::E4m3, Elem::E5m2, Elem::F32], 4, "f32"),
        ("sm_90", "8.4", 32, [Elem::E5m2, Elem::E4m3, Elem::F16], 2, "b32"),
        ("sm_89", "8.4", 16, [Elem::E4m3, Elem::E4m3, Elem::F32], 4, "f32"),
        ("sm_120", "8.4", 32, [Elem::E4m3, Elem::E4m3, Elem::F16], 2, "b32"),
        ("sm_80", "7.0", 16, [Elem::F16, Elem::F16, Elem::F16], 2, "b32"),
        ("sm_80", "7.0", 32, [Elem::S8, Elem::U8, Elem::S32], 4, "s32"),
        ("sm_90", "7.0", 64, [Elem::U4, Elem::S4, Elem::S32], 4, "s32"),
        ("sm_90", "7.0", 8, [Elem::Tf32, Elem::Tf32, Elem::F32], 4, "f32"),
    ];
    for (name, version, k, [ta, tb, tc], registers, ty) in cases {
        let profile = Profile::by_name(name).unwrap().with_switches(|s| s.underflow.set(Underflow::Signed));
        let types = Types { a: ta, b: tb, c: tc, d: tc };
        let mma =
            WarpMma::new(&profile, Shape::new(16, 8, k), types, Level::Portable).unwrap_or_else(|e| panic!("{e}"));
        let (na, nb) = (mma.layout().a_registers(), mma.layout().b_registers());
        let list = |prefix: &str, n: usize| (0..n).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", ");
        let mut text = format!(
            ".visible .entry k(.param .u64 pin) {{\n.reg .b64 %in;\n.reg .b32 %t;\n.reg .b32 %a<{na}>;\n.reg .b32 %b<{nb}>;\n\
             .reg .{ty} %c<{registers}>;\nld.param.u64 %in, [pin];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %in, %t, 4, %in;\n"
        );
        let loads = (0..na).map(|i| format!("a{i}")).chain((0..nb).map(|i| format!("b{i}")));
        for (i, register) in loads.enumerate() {
            text += &format!("ld.global.b32 %{register}, [%in+{}];\n", 128 * i);
        }
        for i in 0..registers {
            text += &format!("ld.global.{ty} %c{i}, [%in+{}];\n", 128 * (na + nb + i));
        }
        text += &format!(
            "mma.sync.aligned.m16n8k{k}.row.col.{}.{}.{}.{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n",
            tc.name(),
            ta.name(),
            tb.name(),
            tc.name(),
            list("c", registers),
            list("a", na),
            list("b", nb),
            list("c", registers)
        );
        for i in 0..registers {
            text += &format!("st.global.{ty} [%in+{}], %c{i};\n", 128 * (na + nb + i));
        }
        text += "ret;\n}\n";
        let target = if version == "7.0" { 80 } else { 89 };
        let program = compile_for(&format!(".version {version}\n.target sm_{target}"), &profile, &text);
        let mut random = Random(u64::from(k));
        for _ in 0..20 {
            let words: Vec<u32> = (0..32 * (na + nb + registers)).map(|_| random.u32() & 0xb7b7_b7b7).collect();
            let rows: Vec<[u32; 32]> = words.as_chunks::<32>().0.to_vec();
            let (a, rest) = rows.split_at(na);
            let (b, c) = rest.split_at(nb);
            let mut expected = vec![[0; 32]; registers];
            mma.run_reference(
                &a.iter().collect::<Vec<_>>(),
                &b.iter().collect::<Vec<_>>(),
                &c.iter().collect::<Vec<_>>(),
                &mut expected,
            );
            for simd in Level::available() {
                let mut device = Device::with(ExecOptions { simd, ..ExecOptions::default() });
                let at = device.upload(&words);
                device.launch(&program, 1, 32, &[at.into()]).unwrap_or_else(|e| panic!("{e}"));
                let got = device.download(at, words.len());
                assert_eq!(got[32 * (na + nb)..], *expected.as_flattened(), "{name} {types:?} {simd:?}");
            }
        }
    }
}

/// The special function unit follows the switches of its profile.
#[test]
fn approximate_instructions_follow_the_profile() {
    use emulator::mufu::SineArgument;
    use emulator::mufu::approx::Subnormals;
    let run = |profile: &Profile, op: &str, x: u32| {
        let text = kernel(op, "f32", &["f32"]);
        let program = compile_for(".version 7.0\n.target sm_80", profile, &text);
        let mut device = Device::new();
        let at = device.upload(&[x, 0, 0, 0, 0, 0, 0, 0]);
        device.launch(&program, 1, 1, &[at.into()]).unwrap();
        device.download(at, 8)[6]
    };
    let ampere = Profile::by_name("sm_80").expect("the profile exists");
    let flushed = ampere.with_switches(|s| s.approx_subnormals.set(Subnormals::Flushed));
    // The reciprocal of a subnormal number, kept or taken for zero.
    assert_eq!(run(ampere, "rcp.approx.f32", 0x0040_0000), 0x7f00_0000);
    assert_eq!(run(&flushed, "rcp.approx.f32", 0x0040_0000), 0x7f80_0000);
    let fixed = ampere.with_switches(|s| s.sine_argument.set(SineArgument::FixedPoint));
    let differ = (0..2_000).filter(|i| {
        let x = 0x4000_0000 + i * 0x1357;
        run(ampere, "sin.approx.f32", x) != run(&fixed, "sin.approx.f32", x)
    });
    assert!(differ.take(1).count() == 1);
}
