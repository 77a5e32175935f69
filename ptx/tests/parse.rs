//! What the parser accepts, and where it points when it does not.

mod common;

use ptx::ast::{Addr, Base, Module, Op, Operand, Reg, Stmt};
use ptx::{Defect, ParseErrorKind, parse};

const HEAD: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

/// A kernel around a body; the body starts on line 12.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 x, .param .u32 n)\n{{\n.reg .pred %p<4>;\n\
         .reg .b16 %rs<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<8>;\n\
         .shared .align 16 .b8 tile[64];\n{body}\n}}\n"
    )
}

/// The body's instructions.
fn ops(body: &str) -> Vec<Op> {
    let module = parse(&kernel(body)).unwrap_or_else(|e| panic!("{body}: {e}"));
    let inst = |s: &Stmt| match s {
        Stmt::Inst(i) => Some(i.op.clone()),
        Stmt::Label(_) => None,
    };
    module.kernels[0].body.iter().filter_map(inst).collect()
}

#[track_caller]
fn fails(body: &str, column: u32, token: &str, message: &str) {
    let error = match parse(&kernel(body)) {
        Err(error) => error,
        Ok(_) => panic!("{body}: parsed"),
    };
    let text = error.to_string();
    assert_eq!((error.line, error.column), (12, column), "{body}: {text}");
    assert_eq!(error.token, token, "{body}: {text}");
    assert!(text.contains(message), "{body}: {text}");
}

#[test]
fn builder_kernels_survive_text() {
    let module = common::all();
    ptx::validate(&module).unwrap();
    let text = ptx::print(&module);
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(again, module);
    assert_eq!(ptx::print(&again), text);
}

#[test]
fn text_is_readable() {
    let text = ptx::print(&Module::new(vec![common::saxpy()]));
    let expected = "\
.version 7.0
.target sm_80
.address_size 64

.visible .entry saxpy(
\t.param .u64 x,
\t.param .u64 y,
\t.param .f32 a,
\t.param .u32 n
)
{
\t.reg .pred %p<1>;
\t.reg .b32 %r<5>;
\t.reg .b64 %rd<6>;
\t.reg .f32 %f<4>;
\tld.param.u64 %rd0, [x];
\tcvta.to.global.u64 %rd1, %rd0;
\tld.param.u64 %rd2, [y];
\tcvta.to.global.u64 %rd3, %rd2;
\tld.param.f32 %f0, [a];
\tld.param.u32 %r0, [n];
\tmov.u32 %r1, %ctaid.x;
\tmov.u32 %r2, %ntid.x;
\tmov.u32 %r3, %tid.x;
\tmad.lo.u32 %r4, %r1, %r2, %r3;
\tsetp.lt.u32 %p0, %r4, %r0;
\t@!%p0 bra L0;
\tmad.wide.u32 %rd4, %r4, 4, %rd1;
\tmad.wide.u32 %rd5, %r4, 4, %rd3;
\tld.global.nc.f32 %f1, [%rd4];
\tld.global.f32 %f2, [%rd5];
\tfma.rn.f32 %f3, %f0, %f1, %f2;
\tst.global.f32 [%rd5], %f3;
L0:
\tret;
}
";
    assert_eq!(text, expected);
}

#[test]
fn immediates() {
    let mov = |text: &str| match ops(&format!("mov.b64 %rd0, {text};")).remove(0) {
        Op::Mov { a, .. } => a,
        other => panic!("{other:?}"),
    };
    assert_eq!(mov("0"), Operand::Int(0));
    assert_eq!(mov("-17"), Operand::Int(-17));
    assert_eq!(mov("0x1F"), Operand::Int(31));
    assert_eq!(mov("0xffffffffffffffff"), Operand::Int(-1));
    assert_eq!(mov("18446744073709551615"), Operand::Int(-1));
    assert_eq!(mov("-9223372036854775808"), Operand::Int(i64::MIN));
    assert_eq!(mov("7U"), Operand::Int(7));
    assert_eq!(mov("0d3FF0000000000000"), Operand::F64(0x3ff0_0000_0000_0000));
    match ops("mov.f32 %f0, 0f7FC00001;").remove(0) {
        Op::Mov { a, .. } => assert_eq!(a, Operand::F32(0x7fc0_0001)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn addresses() {
    let load = |text: &str| match ops(&format!("ld.shared.b32 %r0, [{text}];")).remove(0) {
        Op::Ld { addr, .. } => addr,
        other => panic!("{other:?}"),
    };
    let (base, offset) = (Base::Reg(Reg(9)), 0);
    assert_eq!(load("%r1"), Addr { base, offset });
    assert_eq!(load("%r1+16"), Addr { base, offset: 16 });
    assert_eq!(load("%r1+-16"), Addr { base, offset: -16 });
    let base = Base::Shared(0);
    assert_eq!(load("tile+60"), Addr { base, offset: 60 });
}

#[test]
fn comments_labels_and_layout_do_not_matter() {
    let plain = parse(&kernel("LOOP:\n@%p0 bra LOOP;\nret;")).unwrap();
    let odd = kernel("LOOP: // here\n/* a\nlong one */ @%p0\nbra\n LOOP ; ret;");
    assert_eq!(parse(&odd).unwrap(), plain);
    let scattered = kernel("LOOP: @%p0 bra LOOP; ret;")
        .replace(".reg .b32 %r<8>;", ".reg .b32 %r0, %r1, %r2, %r3; .reg .b32 %r4, %r5, %r6, %r7;");
    assert_eq!(parse(&scattered).unwrap(), plain);
}

#[test]
fn instructions_remember_their_place() {
    let module = parse(&kernel("ret;\n   @%p0 exit;")).unwrap();
    let place = |i: usize| match &module.kernels[0].body[i] {
        Stmt::Inst(inst) => (inst.pos.line, inst.pos.column),
        Stmt::Label(_) => (0, 0),
    };
    assert_eq!((place(0), place(1)), ((12, 1), (13, 4)));
}

#[test]
fn errors_point_at_the_token() {
    fails("foo.u32 %r0, %r1;", 1, "foo", "unknown opcode");
    fails("add.x.u32 %r0, %r1, 2;", 4, ".x", "`add` expects a type");
    fails("add.u32.u32 %r0, %r1, 2;", 8, ".u32", "no further modifier");
    fails("add.u31 %r0, %r1, 2;", 4, ".u31", "a type such as .u32");
    fails("add %r0, %r1, 2;", 5, "%r0", "a type such as .u32");
    fails("add.u32 %r0, %r9, 2;", 14, "%r9", "not declared");
    fails("add.u32 %r0, %r1;", 17, ";", "another operand");
    fails("add.u32 %r0, %r1, 2, 3;", 20, ",", "`;` after the operands");
    fails("add.u32 %r0, %r1, -;", 20, ";", "an integer");
    fails("add.u32 %r0, n, 2;", 14, "n", "a register, an immediate");
    fails("add.u32 n, %r0, 2;", 9, "n", "a register");
    fails("add.u32 %r0, %r1, 010;", 19, "010", "not a decimal or 0x");
    fails("add.u32 %r0, %r1, 99999999999999999999;", 19, "99999999999999999999", "out of range");
    fails("add.u32 %r0, %r1, 0x10000000000000000;", 19, "0x10000000000000000", "out of range");
    fails("mov.f32 %f0, 1.0;", 15, ".0", "write an f32 as 0f");
    fails("mov.f32 %f0, 0f3F8;", 14, "0f3F8", "exactly 8");
    fails("ld.global.v2.b32 %r0, [%rd0];", 18, "%r0", "a vector");
    fails("ld.global.v2.b32 {%r0}, [%rd0];", 18, "{", "two elements");
    fails("ld.const.b32 %r0, [%rd0];", 3, ".const", ".global");
    fails("ld.global.b32 %r0, [%rd0-4];", 25, "-", "+-4");
    fails("ld.global.b32 %r0, [nowhere];", 21, "nowhere", "not declared");
    fails("bra nowhere;", 5, "nowhere", "not defined");
    fails("bra %p0;", 5, "%p0", "not defined");
    fails("L: ret; L: ret;", 9, "L", "declared twice");
    fails("n: ret;", 1, "n", "declared twice");
    fails("mov.u32 %r0, %clock;", 14, "%clock", "not declared");
    fails("mov.u32 %r0, %tid.w;", 14, "%tid", "not declared");
    fails(".reg .b32 %r7;", 11, "%r7", "declared twice");
    fails(".reg .b32 %tid;", 11, "%tid", "special register");
    fails(".reg .b99 %q;", 6, ".b99", "a type");
    fails("{ ret; }", 1, "{", "nested blocks");
    fails("ret; é", 6, "é", "no token");
    fails("/* ret;", 1, "/*", "never closed");
    fails("atom.global.add.f32 %f0, [%rd0], %f1;", 16, ".f32", "order in which threads arrive");
    fails("red.global.add.u32 [%rd0], %r1;", 1, "red", "unknown opcode");
    fails("mma.sync.aligned.m16n8.row.col.f32.f16.f16.f32 {%f0}, {%r0}, {%r0}, {%f0};", 17, ".m16n8", "a shape");
}

/// What is well formed but not PTX points at the instruction.
#[test]
fn structural_errors_point_at_the_instruction() {
    let bad = |body: &str, message: &str| fails(body, 1, body.split(['.', ' ']).next().unwrap_or(""), message);
    bad("add.u32 %r0, %f1, 2;", "register %f1 is .f32, but .u32 is needed");
    bad("add.rn.f32 %f0, %f1, 2;", "an integer cannot stand where a .f32 is read");
    bad("add.u32 %r0, %r1, 4294967296;", "4294967296 does not fit .u32");
    bad("add.u16 %rs0, %rs1, -32769;", "does not fit .u16");
    bad("add.u32 %r0, %tid.x, 2;", "a special register cannot stand");
    bad("add.b32 %r0, %r1, 2;", "`add` has no .b32 form");
    bad("fma.f32 %f0, %f1, %f2, %f3;", "no rounding; needed: .rn");
    bad("div.f32 %f0, %f1, %f2;", "no rounding");
    bad("add.rni.f32 %f0, %f1, %f2;", "rni rounding");
    bad("min.rn.f32 %f0, %f1, %f2;", "rn rounding; needed: none");
    bad("add.rn.NaN.f32 %f0, %f1, %f2;", "cannot have .NaN");
    bad("cvt.f32.s32 %f0, %r1;", "no rounding");
    bad("cvt.rn.f32.f16 %f0, %rs1;", "exact");
    bad("cvt.rm.tf32.f32 %r0, %f1;", "needed: .rna");
    bad("cvt.rn.tf32.f32 %r0, %f1;", "needs .version 7.8 and .target sm_90");
    bad("cvt.f32.bf16 %f0, %rs1;", "needs .version 7.8 and .target sm_90");
    bad("cvt.f16.bf16 %rs0, %rs1;", "no cvt.f16.bf16");
    bad("cvt.rn.e4m3x2.f32 %rs0, %f0, %f1;", "needed: .rn.satfinite");
    bad("cvt.rz.relu.satfinite.ue8m0x2.f32 %rs0, %f0, %f1;", "cannot have .relu");
    bad("fma.rn.sat.relu.f16 %rs0, %rs1, %rs2, %rs3;", "cannot have .relu");
    bad("add.rz.f16x2 %r0, %r1, %r2;", "rz rounding; needed: .rn");
    bad("add.rn.sat.bf16 %rs0, %rs1, %rs2;", "cannot have .sat");
    bad("setp.lt.b32 %p0, %r0, %r1;", "does not compare .b32");
    bad("setp.ltu.u32 %p0, %r0, %r1;", "does not compare .u32");
    bad("mul.wide.u64 %rd0, %rd1, 3;", "no .u64 form");
    bad("mul.wide.u32 %r0, %r1, 3;", "but .u64 is needed");
    bad("ld.global.b32 %r0, [%r1];", "address register %r1 is .b32");
    bad("ld.global.b32 %r0, [tile];", "cannot be in the .global space");
    bad("ld.param.b32 %r0, [%rd0];", "cannot be in the .param space");
    bad("ld.param.b32 %r0, [n+4];", "outside n of 4 bytes");
    bad("ld.shared.b32 %r0, [tile+64];", "outside tile of 64 bytes");
    bad("ld.shared.b32 %r0, [tile+2];", "not aligned to the 4 bytes");
    bad("ld.shared.nc.b32 %r0, [tile];", "cannot have .nc");
    bad("ld.global.b32 %r0, [%rd0+2147483648];", "does not fit 32 bits");
    bad("ld.global.v2.b32 {%r0, %r0}, [%rd0];", "written twice");
    bad("ld.global.v4.b64 {%rd0, %rd1, %rd2, %rd3}, [%rd0];", "cannot move 4 elements");
    bad("st.param.b32 [n], %r0;", "cannot access .param");
    bad("mov.b32 %r0, {%rs0, %rs1, %rs2};", "cannot move 3 elements");
    bad("bar.sync 16;", "no barrier 16");
    bad("cp.async.cg.shared.global [tile], [%rd0], 8;", "cannot copy 8 bytes with .cg");
    bad("cp.async.ca.shared.global [tile], [%rd0], 4, 5;", "5 does not fit");
    bad("atom.global.cas.b32 %r0, [%rd0], %r1;", "takes two values");
    bad("atom.global.add.b32 %r0, [%rd0], %r1;", "no .b32 form");
    bad(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, \
         {%r0, %r1, %r2}, {%r4, %r5}, {%f4, %f5, %f6, %f7};",
        "fragment a has 3 registers; mma.m16n8k16 needs 4",
    );
    bad(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%f0, %f1, %f2, %f3}, \
         {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7};",
        "no mma.m16n8k16.f32.bf16.f16.f32",
    );
}

#[test]
fn the_module_around_the_kernels() {
    let at = |text: &str, line: u32, column: u32, message: &str| match parse(text) {
        Ok(_) => panic!("{text}: parsed"),
        Err(e) => {
            let said = e.to_string();
            assert_eq!((e.line, e.column), (line, column), "{text}: {said}");
            assert!(said.contains(message), "{text}: {said}");
        }
    };
    at("", 1, 1, "end of text: expected `.version`");
    at(".version 7\n.target sm_80", 2, 1, "a version such as 7.0");
    at(".version 6.5\n.target sm_80\n.address_size 64\n", 1, 1, "outside 7.0");
    at(".version 7.0\n.target sm_90a\n", 2, 9, "a target such as sm_80");
    at(".version 7.0\n.target sm_62\n.address_size 64\n", 1, 1, "outside sm_70");
    at(&format!("{HEAD}.entry k() {{ }}"), 4, 1, ".visible .entry");
    at(&format!("{HEAD}.visible .func k() {{ }}"), 4, 10, "expected `.entry`");
    at(&format!("{HEAD}.visible .entry k() {{ ret;"), 4, 27, "end of text");
    at(&format!("{HEAD}.visible .entry k(.param .pred p) {{ }}"), 4, 17, "cannot be declared .pred");
    at(&format!("{HEAD}.visible .entry k(.param .u32 p,) {{ }}"), 4, 33, "`.param`");
    let twice = ".visible .entry k() { ret; }\n";
    at(&format!("{HEAD}{twice}{twice}"), 5, 17, "declared twice");
    at(&format!("{HEAD}.visible .entry k() .maxntid 1024, 2 {{ }}"), 4, 17, "1024 threads");
    at(&format!("{HEAD}.visible .entry k() {{ .shared .align 3 .b8 s[4]; }}"), 4, 17, "no power of two");
    at(&format!("{HEAD}.visible .entry k() {{ .shared .align 4 .b8 s[49153]; }}"), 4, 17, "exceed 49152 bytes");
    let module = parse(&format!("{HEAD}.visible .entry k() .maxntid 32 {{ ret; }}")).unwrap();
    assert_eq!(module.kernels[0].max_ntid, Some([32, 1, 1]));
}

/// Small texts that ask for much are refused before anything is allocated.
#[test]
fn hostile_sizes_are_refused() {
    let kind = |body: &str| match parse(&kernel(body)) {
        Err(e) => e.kind,
        Ok(_) => panic!("{body}: parsed"),
    };
    let too_much = |k: ParseErrorKind| matches!(k, ParseErrorKind::TooMuch { .. });
    assert!(too_much(kind(".reg .b32 %q<4294967295>;")));
    assert!(too_much(kind(".reg .b32 %q<200000>; .reg .b32 %s<200000>;")));
    assert!(too_much(kind(&format!("add{};", ".x".repeat(100)))));
    assert!(too_much(kind(&format!("mov.b32 %r0, {{{}%rs0}};", "%rs0, ".repeat(100_000)))));
    assert!(too_much(kind(&"ret;".repeat((1 << 20) + 1))));
    let long = "a".repeat(1_000_000);
    assert_eq!(kind(&format!("{long}: ret;")), ParseErrorKind::NameTooLong);
    let limits = ptx::Limits { text: 10, ..ptx::Limits::DEFAULT };
    let error = ptx::parse_with(HEAD, &limits).unwrap_err();
    assert!(too_much(error.kind.clone()), "{error}");
    // Depth costs nothing: the grammar does not nest.
    assert!(parse(&kernel(&"{".repeat(1_000_000))).is_err());
}

#[test]
fn a_hand_made_module_can_be_invalid() {
    let mut module = Module::new(vec![common::saxpy()]);
    module.kernels.push(module.kernels[0].clone());
    let error = ptx::validate(&module).unwrap_err();
    assert_eq!(error.defect, Defect::DuplicateName { name: "saxpy".to_owned() });
    module.kernels.pop();
    for stmt in &mut module.kernels[0].body {
        if let Stmt::Inst(inst) = stmt {
            inst.for_each_reg_mut(&mut |r| r.0 += 100);
        }
    }
    let error = ptx::validate(&module).unwrap_err();
    let no_such = |d: &Defect| matches!(d, Defect::NoSuch { what: "register", index } if *index >= 100);
    assert!(no_such(&error.defect), "{error}");
    assert_eq!(error.stmt, Some(0));
    // Printing it does not panic, and the text does not parse.
    assert!(parse(&ptx::print(&module)).is_err());
}
