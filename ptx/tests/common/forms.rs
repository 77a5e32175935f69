//! Every form of every instruction: all combinations of operation, types, roundings and modifiers,
//! of which the validator keeps those that exist.

use ptx::ast::*;

/// Registers of each type in [`bench`].
pub const PER_TYPE: u32 = 8;

/// A kernel that declares something of everything and does nothing.
pub fn bench() -> Kernel {
    let prefixes = [
        (Type::Pred, "%p"),
        (Type::B16, "%rs"),
        (Type::B32, "%r"),
        (Type::B64, "%rd"),
        (Type::F32, "%f"),
        (Type::F64, "%fd"),
        (Type::U16, "%uh"),
        (Type::U32, "%u"),
        (Type::U64, "%ud"),
        (Type::S16, "%sh"),
        (Type::S32, "%s"),
        (Type::S64, "%sd"),
        (Type::B8, "%b"),
    ];
    let regs = prefixes
        .iter()
        .flat_map(|(ty, prefix)| (0..PER_TYPE).map(move |i| RegDecl { name: format!("{prefix}{i}"), ty: *ty }));
    let param = |name: &str, ty| Param { name: name.to_owned(), ty };
    Kernel {
        name: "bench".to_owned(),
        params: vec![
            param("pointer", Type::U64),
            param("count", Type::U32),
            param("scale", Type::F32),
            param("byte", Type::B8),
        ],
        max_ntid: Some([64, 1, 1]),
        regs: regs.collect(),
        shared: vec![SharedVar { name: "tile".to_owned(), align: 16, bytes: 1024 }],
        labels: vec!["DONE".to_owned()],
        body: vec![Stmt::Label(Label(0))],
    }
}

/// Registers of the untyped class of a width, or predicates.
fn reg(bits: u32, index: u32) -> Reg {
    let class = match bits {
        1 => 0,
        8 => return Reg(12 * PER_TYPE + index),
        16 => 1,
        64 => 3,
        _ => 2,
    };
    Reg(class * PER_TYPE + index)
}

fn f32_reg(index: u32) -> Reg {
    Reg(4 * PER_TYPE + index)
}

const ROUNDS: [Option<Round>; 11] = [
    None,
    Some(Round::Rn),
    Some(Round::Rz),
    Some(Round::Rm),
    Some(Round::Rp),
    Some(Round::Rna),
    Some(Round::Rni),
    Some(Round::Rzi),
    Some(Round::Rmi),
    Some(Round::Rpi),
    Some(Round::Rs),
];
const FLAG: [bool; 2] = [false, true];

/// Every form, as an operation on the registers of [`bench`].
pub fn forms() -> Vec<Op> {
    let mut all = Vec::new();
    integers(&mut all);
    floats(&mut all);
    conversions(&mut all);
    memory(&mut all);
    warps(&mut all);
    let mut kernel = bench();
    all.retain(|op| {
        kernel.body = vec![inst(op.clone()), Stmt::Label(Label(0))];
        ptx::validate_kernel(&kernel).is_ok()
    });
    all
}

/// An instruction without a guard.
pub fn inst(op: Op) -> Stmt {
    Stmt::Inst(Inst { guard: None, op, pos: Pos::NONE })
}

fn integers(all: &mut Vec<Op>) {
    for &ty in Type::ALL {
        let r = |i| reg(ty.bits(), i);
        let o = |i| Operand::Reg(r(i));
        let shift = Operand::Reg(reg(32, 3));
        for &op in IntOp::ALL {
            let d = match op {
                IntOp::MulWide => reg(ty.bits() * 2, 0),
                _ => r(0),
            };
            let b = match op {
                IntOp::Shl | IntOp::Shr => shift,
                _ => o(2),
            };
            all.push(Op::Int { op, ty, d, a: o(1), b });
        }
        for wide in FLAG {
            let bits = if wide { ty.bits() * 2 } else { ty.bits() };
            let (d, c) = (reg(bits, 0), Operand::Reg(reg(bits, 3)));
            all.push(Op::Mad { wide, ty, d, a: o(1), b: o(2), c });
        }
        for &op in IntUnary::ALL {
            let d = match op {
                IntUnary::Popc | IntUnary::Clz => reg(32, 0),
                _ => r(0),
            };
            all.push(Op::IntUnary { op, ty, d, a: o(1) });
        }
        let (pos, len) = (shift, Operand::Int(5));
        all.push(Op::Bfe { ty, d: r(0), a: o(1), pos, len });
        all.push(Op::Selp { ty, d: r(0), a: o(1), b: o(2), p: reg(1, 0) });
        all.push(Op::Mov { ty, d: r(0), a: o(1) });
        all.push(Op::Mov { ty, d: r(0), a: Operand::Int(7) });
        all.push(Op::Mov { ty, d: r(0), a: Operand::F32(0x3f80_0000) });
        all.push(Op::Mov { ty, d: r(0), a: Operand::F64(0x3ff0 << 48) });
        all.push(Op::Mov { ty, d: r(0), a: Operand::Shared(0) });
        for &special in Special::ALL {
            all.push(Op::Mov { ty, d: r(0), a: Operand::Special(special) });
        }
        for (part, count) in [(8, 2), (8, 4), (16, 2), (16, 4), (32, 2)] {
            let parts: Vec<Reg> = (0..count).map(|i| reg(part, i)).collect();
            let a = parts.iter().map(|r| Operand::Reg(*r)).collect();
            all.push(Op::Pack { ty, d: r(5), a });
            all.push(Op::Unpack { ty, d: parts, a: o(5) });
        }
    }
    let o = |i| Operand::Reg(reg(32, i));
    all.push(Op::Prmt { d: reg(32, 0), a: o(1), b: o(2), sel: o(3) });
}

fn floats(all: &mut Vec<Op>) {
    for &ty in Type::ALL {
        let r = |i| reg(ty.bits(), i);
        let o = |i| Operand::Reg(r(i));
        for round in ROUNDS {
            for ftz in FLAG {
                for sat in FLAG {
                    for nan in FLAG {
                        for xorsign in FLAG {
                            for &op in FloatOp::ALL {
                                let (d, a, b) = (r(0), o(1), o(2));
                                all.push(Op::Float { op, ty, round, ftz, sat, nan, xorsign, d, a, b });
                            }
                        }
                    }
                    for relu in FLAG {
                        all.push(Op::Fma { ty, round, ftz, sat, relu, d: r(0), a: o(1), b: o(2), c: o(3) });
                    }
                }
                for &op in MixedOp::ALL {
                    let (d, c) = (f32_reg(0), Operand::Reg(f32_reg(1)));
                    for b in [None, Some(o(2))] {
                        all.push(Op::Mixed { op, from: ty, round, sat: ftz, d, a: o(1), b, c });
                    }
                }
                for &op in FloatUnary::ALL {
                    all.push(Op::FloatUnary { op, ty, round, ftz, d: r(0), a: o(1) });
                }
            }
        }
        for ftz in FLAG {
            for &f in Approx::ALL {
                all.push(Op::Approx { f, ty, ftz, d: r(0), a: o(1) });
            }
            for &cmp in Cmp::ALL {
                all.push(Op::Setp { cmp, ty, ftz, d: reg(1, 0), a: o(1), b: o(2) });
            }
        }
    }
}

fn conversions(all: &mut Vec<Op>) {
    for &to in Type::ALL {
        for &from in Type::ALL {
            // 8-bit integers live in wider registers.
            let of = |ty: Type, index| reg(if ty.bits() == 8 && ty.is_integer() { 32 } else { ty.bits() }, index);
            let (d, a) = (of(to, 0), Operand::Reg(of(from, 1)));
            for round in ROUNDS {
                for flags in 0..16 {
                    let [ftz, sat, satfinite, relu] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
                    all.push(Op::Cvt { round, ftz, sat, satfinite, relu, to, from, d, a });
                }
            }
        }
        for round in ROUNDS.into_iter().flatten() {
            let (hi, lo) = (Operand::Reg(f32_reg(1)), Operand::Reg(f32_reg(2)));
            for (satfinite, relu) in [(false, false), (false, true), (true, false), (true, true)] {
                for random in [None, Some(Operand::Reg(reg(32, 3)))] {
                    all.push(Op::CvtPack { round, satfinite, relu, to, d: reg(to.bits(), 0), hi, lo, random });
                }
            }
        }
    }
}

fn memory(all: &mut Vec<Op>) {
    let bases =
        [Base::Reg(reg(64, 7)), Base::Reg(reg(32, 7)), Base::Shared(0), Base::Param(0), Base::Param(1), Base::Param(3)];
    for &space in Space::ALL {
        for base in bases {
            let addr = Addr { base, offset: 0 };
            for &ty in Type::ALL {
                for count in 1..=5 {
                    let d: Vec<Reg> = (0..count).map(|i| reg(ty.bits(), i)).collect();
                    let a = d.iter().map(|r| Operand::Reg(*r)).collect();
                    for nc in FLAG {
                        all.push(Op::Ld { space, nc, ty, d: d.clone(), addr });
                    }
                    all.push(Op::St { space, ty, addr, a });
                }
                for &op in AtomOp::ALL {
                    let (d, a) = (reg(ty.bits(), 0), Operand::Reg(reg(ty.bits(), 1)));
                    for b in [None, Some(Operand::Reg(reg(ty.bits(), 2)))] {
                        all.push(Op::Atom { space, op, ty, d, addr, a, b });
                    }
                }
            }
        }
        let (d, a) = (reg(64, 0), Operand::Reg(reg(64, 1)));
        all.push(Op::Cvta { space, d, a });
    }
    let src = Addr { base: bases[0], offset: 0 };
    for base in bases {
        let dst = Addr { base, offset: 0 };
        for cg in FLAG {
            for bytes in [2, 4, 8, 16, 32] {
                for src_size in [None, Some(Operand::Int(4)), Some(Operand::Reg(reg(32, 0)))] {
                    all.push(Op::CpAsync { cg, bytes, dst, src, src_size });
                }
            }
        }
        for trans in FLAG {
            for count in 1..=5 {
                let d = (0..count).map(|i| reg(32, i)).collect();
                all.push(Op::LdMatrix { trans, d, addr: dst });
            }
        }
    }
}

fn warps(all: &mut Vec<Op>) {
    let o = |i| Operand::Reg(reg(32, i));
    let mask = Operand::Int(-1);
    for &mode in ShflMode::ALL {
        for p in [None, Some(reg(1, 1))] {
            let c = Operand::Int(31);
            all.push(Op::Shfl { mode, d: reg(32, 0), p, a: o(1), b: o(2), c, mask });
        }
    }
    for &mode in VoteMode::ALL {
        for negate in FLAG {
            let d = match mode {
                VoteMode::Ballot => reg(32, 0),
                _ => reg(1, 0),
            };
            all.push(Op::Vote { mode, d, p: reg(1, 1), negate, mask });
        }
    }
    let inputs = [Type::F16, Type::Bf16, Type::Tf32, Type::F32, Type::S8, Type::U4, Type::E5m2];
    for k in [4, 8, 16, 32, 64] {
        let shape = MmaShape { m: 16, n: 8, k };
        for input in inputs {
            for acc in [Type::F16, Type::F32, Type::S32] {
                for a in [1, 2, 4] {
                    for b in [1, 2] {
                        for cd in [2, 4] {
                            let fragment = |n: u32, at: u32| (at..at + n).map(|i| reg(32, i)).collect();
                            let sums = (0..cd).map(|i| if acc == Type::F32 { f32_reg(i) } else { reg(32, i) });
                            all.push(Op::Mma {
                                shape,
                                dty: acc,
                                aty: input,
                                bty: input,
                                cty: acc,
                                d: sums.clone().collect(),
                                a: fragment(a, 0),
                                b: fragment(b, 4),
                                c: sums.collect(),
                            });
                        }
                    }
                }
            }
        }
    }
    for uni in FLAG {
        all.push(Op::Bra { uni, target: Label(0) });
    }
    all.extend([Op::Ret, Op::Exit, Op::CpAsyncCommit, Op::WarpSync { mask }]);
    for n in [0, 1, 15, 16] {
        all.push(Op::BarSync { id: n });
        all.push(Op::CpAsyncWait { n: Some(n) });
    }
    all.push(Op::CpAsyncWait { n: None });
}
