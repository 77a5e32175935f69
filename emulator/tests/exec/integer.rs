//! Integer, bit, comparison, selection, move and conversion instructions, against 128-bit arithmetic.

use crate::device::{Device, Random, all_options, compile_text};

/// Bits of a register of this type, and its class.
fn register(ty: &str) -> (&'static str, u32) {
    match ty {
        "u16" | "s16" | "b16" => ("b16", 16),
        "u64" | "s64" | "b64" => ("b64", 64),
        _ => ("b32", 32),
    }
}

/// Runs `op d, a, b, c` (as many sources as `sources`) on 64 random sets of operands under a guard that keeps some lanes
/// out, in every way there is, and compares with `want`, which gets the operands cut to their types.
fn check(op: &str, d: &str, sources: &[&str], want: impl Fn(&[u64]) -> Option<u64>) {
    let (d_reg, d_bits) = register(d);
    let mut text = ".visible .entry k(.param .u64 pin, .param .u64 pout, .param .u32 pmask)\n{\n".to_owned();
    text += &format!(".reg .b64 %in, %out, %wide;\n.reg .b32 %t, %bit;\n.reg .pred %p;\n.reg .{d_reg} %d;\n");
    for (i, ty) in sources.iter().enumerate() {
        text += &format!(".reg .{} %s{i};\n", register(ty).0);
    }
    text += "ld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\nmov.u32 %t, %tid.x;\n";
    text += "mul.wide.u32 %wide, %t, 32;\nadd.u64 %in, %in, %wide;\nmul.wide.u32 %wide, %t, 8;\nadd.u64 %out, %out, %wide;\n";
    for (i, ty) in sources.iter().enumerate() {
        text += &format!("ld.global.{} %s{i}, [%in+{}];\n", register(ty).0, 8 * i);
    }
    text += &format!("mov.{d_reg} %d, 42;\n");
    text += "ld.param.u32 %bit, [pmask];\nshr.u32 %bit, %bit, %t;\nand.b32 %bit, %bit, 1;\nsetp.ne.u32 %p, %bit, 0;\n";
    let operands: Vec<String> = (0..sources.len()).map(|i| format!("%s{i}")).collect();
    text += &format!("@%p {op} %d, {};\nst.global.{d_reg} [%out], %d;\nret;\n}}\n", operands.join(", "));
    let program = compile_text(&text);

    let mut random = Random(op.bytes().fold(1, |h: u64, b| h.wrapping_mul(31).wrapping_add(u64::from(b))));
    let mut inputs = Vec::new();
    let mut expected = Vec::new();
    while expected.len() < 64 {
        let values: Vec<u64> = sources
            .iter()
            .map(|ty| {
                let bits = register(ty).1;
                if bits == 64 { random.integer() } else { random.integer() & ((1 << bits) - 1) }
            })
            .collect();
        let Some(result) = want(&values) else { continue };
        expected.push(if d_bits == 64 { result } else { result & ((1 << d_bits) - 1) });
        inputs
            .extend(values.into_iter().chain(std::iter::repeat(0)).take(4).flat_map(|v| [v as u32, (v >> 32) as u32]));
    }
    for (round, options) in all_options().into_iter().enumerate() {
        let mask = if round % 2 == 0 { u32::MAX } else { 0x5a3c_f10f };
        let mut device = Device::with(options);
        let (pin, pout) = (device.upload(&inputs), device.zeros(128));
        device.launch(&program, 1, 64, &[pin.into(), pout.into(), mask.into()]).unwrap();
        let got = device.download(pout, 128);
        for lane in 0..64 {
            let active = mask.checked_shr(lane as u32).unwrap_or(0) & 1 == 1;
            let got = u64::from(got[2 * lane]) | u64::from(got[2 * lane + 1]) << 32;
            let want = if active { expected[lane] } else { 42 };
            let operands = &inputs[8 * lane..8 * lane + 8];
            assert_eq!(got, want, "{op} lane {lane} of {operands:x?} {options:?}");
        }
    }
}

/// The value that the low `bits` bits stand for.
fn value(bits: u32, signed: bool, x: u64) -> i128 {
    let x = i128::from(x) & ((1 << bits) - 1);
    if signed && x >> (bits - 1) & 1 == 1 { x - (1 << bits) } else { x }
}

const TYPES: [(&str, u32, bool); 6] = [
    ("u16", 16, false),
    ("s16", 16, true),
    ("u32", 32, false),
    ("s32", 32, true),
    ("u64", 64, false),
    ("s64", 64, true),
];

#[test]
fn arithmetic_wraps_and_divides_as_integers_do() {
    for (ty, bits, signed) in TYPES {
        let exact = |f: fn(i128, i128) -> i128| {
            move |s: &[u64]| Some(f(value(bits, signed, s[0]), value(bits, signed, s[1])) as u64)
        };
        check(&format!("add.{ty}"), ty, &[ty, ty], exact(|a, b| a + b));
        check(&format!("sub.{ty}"), ty, &[ty, ty], exact(|a, b| a - b));
        check(&format!("mul.lo.{ty}"), ty, &[ty, ty], exact(|a, b| a.wrapping_mul(b)));
        check(&format!("min.{ty}"), ty, &[ty, ty], exact(i128::min));
        check(&format!("max.{ty}"), ty, &[ty, ty], exact(i128::max));
        check(&format!("mul.hi.{ty}"), ty, &[ty, ty], |s| {
            let (a, b) = (value(bits, signed, s[0]), value(bits, signed, s[1]));
            // The product of two u64 does not fit an i128.
            Some(if signed { ((a * b) >> bits) as u64 } else { ((a as u128 * b as u128) >> bits) as u64 })
        });
        let divided = |f: fn(i128, i128) -> i128| {
            move |s: &[u64]| {
                let (a, b) = (value(bits, signed, s[0]), value(bits, signed, s[1]));
                (b != 0).then(|| f(a, b) as u64)
            }
        };
        check(&format!("div.{ty}"), ty, &[ty, ty], divided(|a, b| a / b));
        check(&format!("rem.{ty}"), ty, &[ty, ty], divided(|a, b| a % b));
        check(&format!("mad.lo.{ty}"), ty, &[ty, ty, ty], |s| {
            let [a, b, c] = [0, 1, 2].map(|i| value(bits, signed, s[i]));
            Some(a.wrapping_mul(b).wrapping_add(c) as u64)
        });
    }
    for (ty, wide, bits, signed) in
        [("u16", "u32", 16, false), ("s16", "s32", 16, true), ("u32", "u64", 32, false), ("s32", "s64", 32, true)]
    {
        let product = move |s: &[u64]| value(bits, signed, s[0]) * value(bits, signed, s[1]);
        check(&format!("mul.wide.{ty}"), wide, &[ty, ty], |s| Some(product(s) as u64));
        check(&format!("mad.wide.{ty}"), wide, &[ty, ty, wide], |s| Some((product(s) as u64).wrapping_add(s[2])));
    }
    for (ty, bits, _) in TYPES.into_iter().filter(|t| t.2) {
        check(&format!("neg.{ty}"), ty, &[ty], |s| Some(-value(bits, true, s[0]) as u64));
        check(&format!("abs.{ty}"), ty, &[ty], |s| Some(value(bits, true, s[0]).unsigned_abs() as u64));
    }
}

#[test]
fn bits_shift_count_and_reverse() {
    for (ty, bits) in [("b16", 16), ("b32", 32), ("b64", 64)] {
        check(&format!("and.{ty}"), ty, &[ty, ty], |s| Some(s[0] & s[1]));
        check(&format!("or.{ty}"), ty, &[ty, ty], |s| Some(s[0] | s[1]));
        check(&format!("xor.{ty}"), ty, &[ty, ty], |s| Some(s[0] ^ s[1]));
        check(&format!("not.{ty}"), ty, &[ty], |s| Some(!s[0]));
        // Counts of the width and more clamp.
        check(&format!("shl.{ty}"), ty, &[ty, "u32"], |s| Some(if s[1] >= bits { 0 } else { s[0] << s[1] }));
        check(&format!("shr.{ty}"), ty, &[ty, "u32"], |s| Some(if s[1] >= bits { 0 } else { s[0] >> s[1] }));
    }
    for (ty, bits, signed) in TYPES {
        check(&format!("shr.{ty}"), ty, &[ty, "u32"], |s| Some((value(bits, signed, s[0]) >> s[1].min(100)) as u64));
    }
    for (ty, bits) in [("b32", 32), ("b64", 64)] {
        check(&format!("popc.{ty}"), "u32", &[ty], |s| Some((0..bits).filter(|i| s[0] >> i & 1 == 1).count() as u64));
        check(&format!("clz.{ty}"), "u32", &[ty], |s| {
            Some((0..bits).rev().take_while(|i| s[0] >> i & 1 == 0).count() as u64)
        });
        check(&format!("brev.{ty}"), ty, &[ty], |s| {
            Some((0..bits).fold(0, |r, i| r | (s[0] >> i & 1) << (bits - 1 - i)))
        });
    }
}

#[test]
fn fields_and_bytes_are_extracted_as_the_isa_says() {
    for (ty, bits, signed) in TYPES.into_iter().skip(2) {
        let masked = move |x: u64| x & 0xff;
        check(&format!("bfe.{ty}"), ty, &[ty, "u32", "u32"], |s| {
            // The pseudocode of PTX ISA 9.7.1.19.
            let (pos, len, msb) = (masked(s[1]), masked(s[2]), u64::from(bits) - 1);
            let bit = |i: u64| s[0] >> i & 1;
            let sbit = if !signed || len == 0 { 0 } else { bit((pos + len - 1).min(msb)) };
            Some((0..=msb).fold(0, |d, i| d | (if i < len && pos + i <= msb { bit(pos + i) } else { sbit }) << i))
        });
    }
    check("prmt.b32", "b32", &["b32", "b32", "b32"], |s| {
        let bytes: Vec<u64> =
            (0..8).map(|i| (if i < 4 { s[0] >> (8 * i) } else { s[1] >> (8 * (i - 4)) }) & 0xff).collect();
        Some((0..4).fold(0, |d, i| {
            let nibble = s[2] >> (4 * i) & 0xf;
            let byte = bytes[nibble as usize & 7];
            let byte = if nibble & 8 == 0 {
                byte
            } else if byte & 0x80 != 0 {
                0xff
            } else {
                0
            };
            d | byte << (8 * i)
        }))
    });
}

#[test]
fn conversions_extend_by_the_source_and_cut_to_the_destination() {
    for (to, to_bits, _) in TYPES {
        for (from, from_bits, from_signed) in TYPES {
            check(&format!("cvt.{to}.{from}"), to, &[from], |s| {
                Some(value(to_bits, false, value(from_bits, from_signed, s[0]) as u64) as u64)
            });
        }
        // From the low byte of a wider register.
        check(&format!("cvt.{to}.u8"), to, &["b32"], |s| Some(value(8, false, s[0]) as u64));
        check(&format!("cvt.{to}.s8"), to, &["b64"], |s| Some(value(8, true, s[0]) as u64));
    }
    // To a byte: the destination register is wider, and filled by the sign of the byte.
    for (d, from) in [("u16", "u16"), ("u32", "u32"), ("u64", "u64"), ("u32", "u64")] {
        check(&format!("cvt.s8.{from}"), d, &[from], |s| Some(value(8, true, s[0]) as u64));
        check(&format!("cvt.u8.{from}"), d, &[from], |s| Some(value(8, false, s[0]) as u64));
    }
}

/// Comparisons and selections, through a predicate.
#[test]
fn comparisons_select() {
    for (ty, bits, signed) in TYPES {
        type Relation = fn(&i128, &i128) -> bool;
        let relations: [(&str, Relation); 6] = [
            ("eq", i128::eq),
            ("ne", i128::ne),
            ("lt", i128::lt),
            ("le", i128::le),
            ("gt", i128::gt),
            ("ge", i128::ge),
        ];
        for (name, relation) in relations {
            let (reg, _) = register(ty);
            let text = format!(
                ".visible .entry k(.param .u64 pin, .param .u64 pout) {{\n.reg .b64 %in, %out, %wide;\n.reg .b32 %t;\n\
                 .reg .pred %p, %q;\n.reg .{reg} %a, %b, %d;\nld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\n\
                 mov.u32 %t, %tid.x;\nmul.wide.u32 %wide, %t, 16;\nadd.u64 %in, %in, %wide;\nadd.u64 %out, %out, %wide;\n\
                 ld.global.{reg} %a, [%in];\nld.global.{reg} %b, [%in+8];\nsetp.{name}.{ty} %p, %a, %b;\nnot.pred %q, %p;\n\
                 selp.{reg} %d, %a, %b, %p;\nst.global.{reg} [%out], %d;\nselp.{reg} %d, 1, 2, %q;\n\
                 st.global.{reg} [%out+8], %d;\nret;\n}}\n"
            );
            let program = compile_text(&text);
            let mut random = Random(u64::from(bits) + name.len() as u64);
            let mut pairs: Vec<[u64; 2]> = (0..60).map(|_| [random.integer(), random.integer()]).collect();
            pairs.extend((0..4).map(|_| [random.integer(); 2]));
            let words: Vec<u32> = pairs.iter().flatten().flat_map(|v| [*v as u32, (*v >> 32) as u32]).collect();
            for options in all_options() {
                let mut device = Device::with(options);
                let (pin, pout) = (device.upload(&words), device.zeros(256));
                device.launch(&program, 1, 64, &[pin.into(), pout.into()]).unwrap();
                let got = device.download(pout, 256);
                for (i, &[a, b]) in pairs.iter().enumerate() {
                    let holds = relation(&value(bits, signed, a), &value(bits, signed, b));
                    let chosen = value(bits, false, if holds { a } else { b }) as u64;
                    assert_eq!(
                        u64::from(got[4 * i]) | u64::from(got[4 * i + 1]) << 32,
                        chosen,
                        "{name}.{ty} {a:x} {b:x}"
                    );
                    assert_eq!(got[4 * i + 2], if holds { 2 } else { 1 });
                }
            }
        }
    }
}

#[test]
fn registers_pack_and_unpack_least_significant_first() {
    let program = compile_text(
        ".visible .entry k(.param .u64 pout) {\n.reg .b64 %out, %w, %v;\n.reg .b32 %r<4>;\n.reg .b16 %h<8>;\n\
         ld.param.u64 %out, [pout];\nmov.b32 %r0, 0x44332211;\nmov.b32 {%h0, %h1}, %r0;\nmov.b32 %r1, {%h1, %h0};\n\
         st.global.b32 [%out], %r1;\nmov.b64 %w, {%r0, %r1};\nst.global.b64 [%out+8], %w;\nmov.b64 {%r2, %r3}, %w;\n\
         st.global.v2.b32 [%out+16], {%r3, %r2};\nmov.b64 {%h4, %h5, %h6, %h7}, %w;\nmov.b64 %v, {%h7, %h6, %h5, %h4};\n\
         st.global.b64 [%out+24], %v;\nret;\n}\n",
    );
    for options in all_options() {
        let mut device = Device::with(options);
        let out = device.zeros(8);
        device.launch(&program, 1, 1, &[out.into()]).unwrap();
        assert_eq!(
            device.download(out, 8),
            [0x2211_4433, 0, 0x4433_2211, 0x2211_4433, 0x2211_4433, 0x4433_2211, 0x4433_2211, 0x2211_4433]
        );
    }
}
