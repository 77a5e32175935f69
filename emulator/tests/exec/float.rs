//! Floating-point instructions: that each reaches its own operation, with its own modifiers.
//!
//! The operations themselves are tested beside their definitions; here an independent implementation (`rustc_apfloat`) or an
//! exact identity says which one must have run.

use crate::device::{Device, Random, all_options, compile_text};
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

/// f32 bits: ordinary, boundary, subnormal, special.
fn f32_bits(r: &mut Random) -> u32 {
    const SPECIAL: [u32; 12] = [
        0,
        0x8000_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x7f7f_ffff,
        0x0080_0000,
        0x007f_ffff,
        0x8000_0001,
        0x7f80_0000,
        0xff80_0000,
        0x4b00_0001,
        0x3effffff,
    ];
    match r.below(4) {
        0 => SPECIAL[r.below(12) as usize],
        1 => r.u32() & 0x80ff_ffff | 0x3f00_0000,
        2 => r.u32() & 0x81ff_ffff,
        _ => r.u32(),
    }
}

/// Runs `op d, a, b, c` on 32 lanes of 64-bit cells and compares with `want` in every way there is.
fn check(
    op: &str,
    d: &str,
    sources: &[&str],
    mut input: impl FnMut(&mut Random, usize) -> u64,
    want: impl Fn(&[u64]) -> u64,
) {
    let mut text = format!(".visible .entry k(.param .u64 pin) {{\n.reg .b64 %in;\n.reg .b32 %t;\n.reg .{d} %d;\n");
    for (i, ty) in sources.iter().enumerate() {
        text += &format!(".reg .{ty} %s{i};\n");
    }
    text += "ld.param.u64 %in, [pin];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %in, %t, 32, %in;\n";
    for (i, ty) in sources.iter().enumerate() {
        text += &format!("ld.global.{ty} %s{i}, [%in+{}];\n", 8 * i);
    }
    let operands: Vec<String> = (0..sources.len()).map(|i| format!("%s{i}")).collect();
    text += &format!("{op} %d, {};\nst.global.{d} [%in+24], %d;\nret;\n}}\n", operands.join(", "));
    let program = compile_text(&text);
    let mut random = Random(op.bytes().fold(7, |h: u64, b| h.wrapping_mul(31).wrapping_add(u64::from(b))));
    for options in all_options() {
        for _ in 0..4 {
            let cells: Vec<[u64; 4]> = (0..32)
                .map(|_| std::array::from_fn(|i| if i < sources.len() { input(&mut random, i) } else { 0 }))
                .collect();
            let words: Vec<u32> = cells.iter().flatten().flat_map(|v| [*v as u32, (*v >> 32) as u32]).collect();
            let mut device = Device::with(options);
            let at = device.upload(&words);
            device.launch(&program, 1, 32, &[at.into()]).unwrap_or_else(|e| panic!("{op}: {e}"));
            let got = device.download(at, 256);
            for (cell, got) in cells.iter().zip(got.chunks_exact(8)) {
                let got = u64::from(got[6]) | u64::from(got[7]) << 32;
                assert_eq!(got, want(cell), "{op} {cell:x?} {options:?}");
            }
        }
    }
}

fn single(bits: u64) -> Single {
    Single::from_bits(u128::from(bits as u32))
}

fn out(x: Single) -> u64 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() as u64 }
}

/// `.ftz`: zero of the same sign for subnormals.
fn flush(bits: u64) -> u64 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

const ROUNDINGS: [(&str, Round); 4] = [
    ("rn", Round::NearestTiesToEven),
    ("rz", Round::TowardZero),
    ("rm", Round::TowardNegative),
    ("rp", Round::TowardPositive),
];

#[test]
fn f32_arithmetic_rounds_and_flushes_as_written() {
    let input = |r: &mut Random, _| u64::from(f32_bits(r));
    for (name, round) in ROUNDINGS {
        for ftz in [false, true] {
            let prepare = move |x: u64| single(if ftz { flush(x) } else { x });
            let finish = move |x: Single| if ftz { flush(out(x)) } else { out(x) };
            let dot = if ftz { ".ftz" } else { "" };
            let two = |op: &str, f: fn(Single, Single, Round) -> Single| {
                check(&format!("{op}.{name}{dot}.f32"), "f32", &["f32", "f32"], input, |s| {
                    finish(f(prepare(s[0]), prepare(s[1]), round))
                });
            };
            two("add", |a, b, r| a.add_r(b, r).value);
            two("sub", |a, b, r| a.sub_r(b, r).value);
            two("mul", |a, b, r| a.mul_r(b, r).value);
            two("div", |a, b, r| a.div_r(b, r).value);
            check(&format!("fma.{name}{dot}.f32"), "f32", &["f32", "f32", "f32"], input, |s| {
                finish(prepare(s[0]).mul_add_r(prepare(s[1]), prepare(s[2]), round).value)
            });
            check(&format!("rcp.{name}{dot}.f32"), "f32", &["f32"], input, |s| {
                finish(single(0x3f80_0000).div_r(prepare(s[0]), round).value)
            });
        }
    }
    for (op, f) in [("add", Single::add_r as fn(Single, Single, Round) -> _), ("mul", Single::mul_r)] {
        check(&format!("{op}.rn.sat.f32"), "f32", &["f32", "f32"], input, |s| {
            let x = f(single(s[0]), single(s[1]), Round::NearestTiesToEven).value;
            if x.is_nan() || x.is_negative() { 0 } else { out(x).min(0x3f80_0000) }
        });
    }
    // Square roots of exact squares, and their neighbours in order.
    check(
        "sqrt.rn.f32",
        "f32",
        &["f32"],
        |r, _| u64::from((r.below(4096) as f32).to_bits()),
        |s| u64::from(f32::from_bits(s[0] as u32).sqrt().to_bits()),
    );
}

#[test]
fn f64_arithmetic_rounds_as_written() {
    let input = |r: &mut Random, _| match r.below(3) {
        0 => (f64::from_bits(u64::from(f32_bits(r)) << 29 | 0x3000_0000_0000_0000)).to_bits(),
        1 => r.next() & 0x800f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000,
        _ => r.next() & 0xbfff_ffff_ffff_ffff, // no NaN: which payload survives is open
    };
    let double = |x: u64| Double::from_bits(u128::from(x));
    for (name, round) in ROUNDINGS {
        let two = |op: &str, f: fn(Double, Double, Round) -> Double| {
            check(&format!("{op}.{name}.f64"), "f64", &["f64", "f64"], input, |s| {
                f(double(s[0]), double(s[1]), round).to_bits() as u64
            });
        };
        two("add", |a, b, r| a.add_r(b, r).value);
        two("sub", |a, b, r| a.sub_r(b, r).value);
        two("mul", |a, b, r| a.mul_r(b, r).value);
        check(&format!("fma.{name}.f64"), "f64", &["f64", "f64", "f64"], input, |s| {
            double(s[0]).mul_add_r(double(s[1]), double(s[2]), round).value.to_bits() as u64
        });
    }
    check("neg.f64", "f64", &["f64"], input, |s| s[0] ^ 1 << 63);
    check("abs.f64", "f64", &["f64"], input, |s| s[0] & !(1 << 63));
}

#[test]
fn minimum_maximum_sign_and_comparison() {
    let input = |r: &mut Random, _| u64::from(f32_bits(r));
    let pick = |s: &[u64], max: bool, nan: bool| {
        let (a, b) = (single(s[0]), single(s[1]));
        match (a.is_nan(), b.is_nan()) {
            (true, true) => 0x7fff_ffff,
            (true, false) | (false, true) if nan => 0x7fff_ffff,
            (true, false) => s[1],
            (false, true) => s[0],
            _ if a.is_zero() && b.is_zero() => {
                if max {
                    s[0] & s[1]
                } else {
                    s[0] | s[1]
                }
            }
            _ => {
                if (a > b) == max {
                    s[0]
                } else {
                    s[1]
                }
            }
        }
    };
    check("max.f32", "f32", &["f32", "f32"], input, |s| pick(s, true, false));
    check("min.f32", "f32", &["f32", "f32"], input, |s| pick(s, false, false));
    check("max.NaN.f32", "f32", &["f32", "f32"], input, |s| pick(s, true, true));
    check("min.NaN.f32", "f32", &["f32", "f32"], input, |s| pick(s, false, true));
    check("max.ftz.f32", "f32", &["f32", "f32"], input, |s| pick(&[flush(s[0]), flush(s[1])], true, false));
    let canonical = |x: u64| if single(x).is_nan() { 0x7fff_ffff } else { x };
    check("neg.f32", "f32", &["f32"], input, |s| if single(s[0]).is_nan() { 0x7fff_ffff } else { s[0] ^ 0x8000_0000 });
    check("abs.f32", "f32", &["f32"], input, |s| canonical(s[0] & 0x7fff_ffff));

    // Comparisons, through a selection.
    use std::cmp::Ordering::{Equal, Greater, Less};
    let relations: [(&str, &[std::cmp::Ordering], bool); 14] = [
        ("eq", &[Equal], false),
        ("ne", &[Less, Greater], false),
        ("lt", &[Less], false),
        ("le", &[Less, Equal], false),
        ("gt", &[Greater], false),
        ("ge", &[Greater, Equal], false),
        ("equ", &[Equal], true),
        ("neu", &[Less, Greater], true),
        ("ltu", &[Less], true),
        ("leu", &[Less, Equal], true),
        ("gtu", &[Greater], true),
        ("geu", &[Greater, Equal], true),
        ("num", &[Less, Equal, Greater], false),
        ("nan", &[], true),
    ];
    for (name, orders, unordered) in relations {
        for (ty, bits) in [("f32", 32), ("f64", 64)] {
            let program = compile_text(&format!(
                ".visible .entry k(.param .u64 pin) {{\n.reg .b64 %in;\n.reg .b32 %t, %d;\n.reg .pred %p;\n.reg .{ty} %a, %b;\n\
                 ld.param.u64 %in, [pin];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %in, %t, 24, %in;\nld.global.{ty} %a, [%in];\n\
                 ld.global.{ty} %b, [%in+8];\nsetp.{name}.{ty} %p, %a, %b;\nselp.b32 %d, 1, 0, %p;\nst.global.b32 [%in+16], %d;\nret;\n}}\n"
            ));
            let mut r = Random(bits);
            for options in all_options() {
                let pairs: Vec<[u32; 2]> = (0..64)
                    .map(|i| {
                        let a = f32_bits(&mut r);
                        [a, if i % 4 == 0 { a } else { f32_bits(&mut r) }]
                    })
                    .collect();
                let wide = |x: u32| {
                    let v: Double = Single::from_bits(u128::from(x)).convert(&mut false).value;
                    if bits == 32 { u64::from(x) } else { v.to_bits() as u64 }
                };
                let words: Vec<u32> = pairs
                    .iter()
                    .flat_map(|p| [wide(p[0]), wide(p[1]), 0])
                    .flat_map(|v| [v as u32, (v >> 32) as u32])
                    .collect();
                let mut device = Device::with(options);
                let at = device.upload(&words);
                device.launch(&program, 1, 64, &[at.into()]).unwrap();
                for (p, got) in pairs.iter().zip(device.download(at, 64 * 6).chunks_exact(6)) {
                    let (a, b) = (f32::from_bits(p[0]), f32::from_bits(p[1]));
                    let want = a.partial_cmp(&b).map_or(unordered, |o| orders.contains(&o));
                    assert_eq!(got[4] == 1, want, "{name}.{ty} {p:x?}");
                }
            }
        }
    }
}

#[test]
fn conversions_round_as_written() {
    let input = |r: &mut Random, _| u64::from(f32_bits(r));
    for (name, round) in ROUNDINGS.into_iter().take(2) {
        let bf16 = |x: u64| -> u64 {
            let v: BFloat = single(x).convert_r(round, &mut false).value;
            if v.is_nan() { 0x7fff } else { v.to_bits() as u64 }
        };
        let f16 = |x: u64| -> u64 {
            let v: Half = single(x).convert_r(round, &mut false).value;
            if v.is_nan() { 0x7fff } else { v.to_bits() as u64 }
        };
        check(&format!("cvt.{name}.bf16.f32"), "b16", &["f32"], input, |s| bf16(s[0]));
        check(&format!("cvt.{name}.f16.f32"), "b16", &["f32"], input, |s| f16(s[0]));
        check(&format!("cvt.{name}.bf16x2.f32"), "b32", &["f32", "f32"], input, |s| bf16(s[0]) << 16 | bf16(s[1]));
        check(&format!("cvt.{name}.f16x2.f32"), "b32", &["f32", "f32"], input, |s| f16(s[0]) << 16 | f16(s[1]));
    }
    check(
        "cvt.f32.f16",
        "f32",
        &["b16"],
        |r, _| r.next() & 0xffff,
        |s| {
            let v: Single = Half::from_bits(u128::from(s[0])).convert(&mut false).value;
            out(v)
        },
    );
    check(
        "cvt.rna.tf32.f32",
        "b32",
        &["f32"],
        |r, _| u64::from(r.u32() & 0x80ff_ffff | 0x3f00_0000),
        |s| {
            // Half of the last kept bit, added to the magnitude.
            (s[0] + 0x1000) & 0xffff_e000
        },
    );
    for (name, round) in ROUNDINGS {
        check(
            &format!("cvt.{name}.f32.s32"),
            "f32",
            &["b32"],
            |r, _| r.integer() & 0xffff_ffff,
            |s| Single::from_i128_r(i128::from(s[0] as u32 as i32), round).value.to_bits() as u64,
        );
        check(
            &format!("cvt.{name}.f32.u64"),
            "f32",
            &["b64"],
            |r, _| r.integer(),
            |s| Single::from_u128_r(u128::from(s[0]), round).value.to_bits() as u64,
        );
        check(&format!("cvt.{name}i.s32.f32"), "b32", &["f32"], input, |s| {
            let x = single(s[0]);
            if x.is_nan() { 0 } else { x.to_i128_r(32, round, &mut false).value as i32 as u32 as u64 }
        });
        check(&format!("cvt.{name}i.u32.f32"), "b32", &["f32"], input, |s| {
            let x = single(s[0]);
            if x.is_nan() { 0 } else { x.to_u128_r(32, round, &mut false).value as u64 }
        });
        check(&format!("cvt.{name}i.f32.f32"), "f32", &["f32"], input, |s| {
            out(single(s[0]).round_to_integral(round).value)
        });
    }
    check(
        "cvt.rn.f32.f64",
        "f32",
        &["f64"],
        |r, _| r.next(),
        |s| {
            let v: Single = Double::from_bits(u128::from(s[0])).convert(&mut false).value;
            out(v)
        },
    );
    check("cvt.rzi.s8.f32", "b32", &["f32"], input, |s| {
        let x = single(s[0]);
        let v = if x.is_nan() { 0 } else { x.to_i128_r(8, Round::TowardZero, &mut false).value as i8 };
        u64::from(v as i32 as u32)
    });
}

#[test]
fn special_functions_are_those_of_the_unit() {
    use emulator::mufu::{self, MufuTables};
    let tables = MufuTables::g80();
    let input = |r: &mut Random, _| u64::from(f32_bits(r));
    type Unit = fn(&MufuTables, u32) -> u32;
    let units: [(&str, Unit); 4] = [("rcp", mufu::rcp), ("rsqrt", mufu::rsq), ("ex2", mufu::ex2), ("lg2", mufu::lg2)];
    for (name, f) in units {
        check(&format!("{name}.approx.ftz.f32"), "f32", &["f32"], input, |s| u64::from(f(tables, s[0] as u32)));
    }
}
