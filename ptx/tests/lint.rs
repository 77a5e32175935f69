//! Each rule of the lint on a kernel that keeps it and one that breaks it.

mod common;

use ptx::ast::Module;
use ptx::builder::{F32, KernelBuilder, R32};
use ptx::{LintOptions, Rule, Severity, lint, lint_with, parse};

/// A kernel of one-dimensional blocks of 128 threads around a body that starts on line 12.
fn module(body: &str) -> Module {
    let text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u32 n)\n\
         .maxntid 128, 1, 1 {{\n.reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<8>;\n\
         .reg .b64 %rd<4>;\n.reg .f32 %f<8>;\n.shared .align 16 .b8 tile[64];\n{body}\n}}\n"
    );
    parse(&text).unwrap_or_else(|e| panic!("{body}: {e}"))
}

/// The rules broken by a body, in order.
fn rules(body: &str) -> Vec<Rule> {
    lint(&module(body)).iter().map(|f| f.rule).collect()
}

#[track_caller]
fn clean(body: &str) {
    let findings = lint(&module(body));
    let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(all.is_empty(), "{body}\n{}", all.join("\n"));
}

#[track_caller]
fn breaks(rule: Rule, body: &str) {
    assert_eq!(rules(body), [rule], "{body}");
}

#[test]
fn builder_kernels_are_clean() {
    let findings = lint(&Module::new(vec![common::saxpy(), common::rmsnorm(), common::gemm_tile()]));
    assert_eq!(findings, []);
    let findings = lint(&Module::new(vec![common::every_op()]));
    assert_eq!(findings, []);
}

#[test]
fn findings_say_where() {
    let findings = lint(&module("mov.f32 %f0, 0f00000000;\n add.f32 %f1, %f0, %f0;\nret;"));
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((finding.pos.line, finding.pos.column), (13, 2));
    assert_eq!((finding.stmt, finding.severity), (Some(1), Severity::Error));
    assert_eq!(
        finding.to_string(),
        "error[rounding] kernel k, statement 1 (line 13, column 2): `add.f32` without a rounding \
         may be fused with a neighbour: write add.rn.f32"
    );
}

#[test]
fn roundings() {
    for op in ["add", "sub", "mul"] {
        let zero = "mov.f32 %f0, 0f00000000;";
        clean(&format!("{zero} {op}.rn.f32 %f1, %f0, %f0; ret;"));
        breaks(Rule::Rounding, &format!("{zero} {op}.f32 %f1, %f0, %f0; ret;"));
    }
    // Text cannot leave the rounding of these out; a tree made by hand can.
    let mut module = Module::new(vec![common::saxpy()]);
    for stmt in &mut module.kernels[0].body {
        if let ptx::ast::Stmt::Inst(ptx::ast::Inst { op: ptx::ast::Op::Fma { round, .. }, .. }) = stmt {
            *round = None;
        }
    }
    let findings = lint(&module);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].rule, Rule::Rounding);
}

#[test]
fn special_functions() {
    let with = |f: &str| format!("mov.f32 %f0, 0f3F800000; {f}.f32 %f1, %f0; ret;");
    for f in ["rcp", "rsqrt", "ex2", "lg2"] {
        clean(&with(&format!("{f}.approx.ftz")));
        breaks(Rule::Approx, &with(&format!("{f}.approx")));
    }
    for f in ["sin.approx", "cos.approx.ftz", "tanh.approx", "sqrt.approx.ftz"] {
        breaks(Rule::Approx, &with(f));
    }
    clean(&with("sqrt.rn"));
    assert!(ptx::APPROX_ALLOWED.iter().all(|a| !a.reason.is_empty()));
}

#[test]
fn flushing() {
    let body = "mov.f32 %f0, 0f00000000; add.rn.ftz.f32 %f1, %f0, %f0; ret;";
    breaks(Rule::Ftz, body);
    let allowed = LintOptions { allow_ftz: true, ..LintOptions::default() };
    assert_eq!(lint_with(&module(body), &allowed), []);
    for op in [
        "fma.rn.ftz.f32 %f1, %f0, %f0, %f0",
        "abs.ftz.f32 %f1, %f0",
        "setp.lt.ftz.f32 %p0, %f0, %f0",
        "cvt.rni.ftz.s32.f32 %r0, %f0",
    ] {
        breaks(Rule::Ftz, &format!("mov.f32 %f0, 0f00000000; {op}; ret;"));
    }
}

#[test]
fn control_flow() {
    breaks(Rule::FallOffEnd, "bar.sync 0;");
    breaks(Rule::FallOffEnd, "");
    clean("exit;");
    breaks(Rule::FallOffEnd, "ld.param.u32 %r0, [n]; setp.eq.u32 %p0, %r0, 0; @%p0 ret;");
    breaks(Rule::Unreachable, "ret; bar.sync 0; ret;");
    breaks(Rule::NoExit, "L: bra L;");
    let findings = lint(&module("ret; ret;"));
    assert_eq!(findings[0].severity, Severity::Warning);
}

#[test]
fn registers_before_definition() {
    breaks(Rule::UndefinedRegister, "st.shared.b32 [tile], %r0; ret;");
    clean("mov.b32 %r0, 1; st.shared.b32 [tile], %r0; ret;");
    let branch = "ld.param.u32 %r1, [n]; setp.eq.u32 %p0, %r1, 0; @%p0 bra L;";
    // Written on one path only, and on both.
    breaks(Rule::UndefinedRegister, &format!("{branch} mov.b32 %r0, 1; L: st.shared.b32 [tile], %r0; ret;"));
    clean(&format!("{branch} mov.b32 %r0, 1; bra E; L: mov.b32 %r0, 2; E: st.shared.b32 [tile], %r0; ret;"));
    // A loop body need not run.
    breaks(Rule::UndefinedRegister, &format!("T: {branch} mov.b32 %r0, 1; bra T; L: st.shared.b32 [tile], %r0; ret;"));
    // The same guard, until it changes; both guards; the opposite guard.
    let p = "ld.param.u32 %r1, [n]; setp.eq.u32 %p0, %r1, 0;";
    let st = "st.shared.b32 [tile], %r0; ret;";
    clean(&format!("{p} @%p0 mov.b32 %r0, 1; @%p0 {st}"));
    clean(&format!("{p} @%p0 mov.b32 %r0, 1; @!%p0 mov.b32 %r0, 2; {st}"));
    breaks(Rule::UndefinedRegister, &format!("{p} @%p0 mov.b32 %r0, 1; @!%p0 {st}"));
    breaks(Rule::UndefinedRegister, &format!("{p} @%p0 mov.b32 %r0, 1; setp.eq.u32 %p0, %r1, 1; @%p0 {st}"));
    breaks(Rule::UndefinedRegister, &format!("{p} @%p0 mov.b32 %r0, 1; {st}"));
    breaks(Rule::UndefinedRegister, "@%p0 ret; ret;");
    breaks(Rule::UndefinedRegister, "add.u32 %r0, %r0, 1; ret;");
}

/// `setp` of a predicate by what decides it, then a barrier or warp operation it controls.
const BARRIER: &str = "bar.sync 0;";
const SHUFFLE: &str = "mov.b32 %r7, 1; shfl.sync.bfly.b32 %r6, %r7, 1, 31, -1;";

fn under(predicate: &str, what: &str) -> String {
    format!("{predicate} @%p0 bra L; {what} L: ret;")
}

#[track_caller]
fn divergence(predicate: &str, barrier: bool, shuffle: bool) {
    let found = |what: &str| rules(&under(predicate, what));
    let expect = |bad: bool, rule: Rule| if bad { vec![rule] } else { vec![] };
    assert_eq!(found(BARRIER), expect(barrier, Rule::DivergentBarrier), "{predicate}");
    assert_eq!(found(SHUFFLE), expect(shuffle, Rule::DivergentWarpOp), "{predicate}");
}

#[test]
fn what_is_uniform() {
    let uniform = |p: &str| divergence(p, false, false);
    let by_warp = |p: &str| divergence(p, true, false);
    let varying = |p: &str| divergence(p, true, true);
    uniform("ld.param.u32 %r0, [n]; setp.eq.u32 %p0, %r0, 0;");
    uniform("mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 0;");
    uniform("mov.u32 %r0, %ntid.x; shr.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 9;");
    uniform("ld.shared.b32 %r0, [tile]; setp.eq.u32 %p0, %r0, 0;");
    uniform("ld.param.u64 %rd0, [x]; ld.global.b32 %r0, [%rd0+8]; setp.eq.u32 %p0, %r0, 0;");
    varying("mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;");
    varying("mov.u32 %r0, %tid.y; shr.u32 %r0, %r0, 5; setp.eq.u32 %p0, %r0, 0;");
    varying("mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 0;");
    varying(
        "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [x]; mad.wide.u32 %rd0, %r0, 4, %rd0; \
         ld.global.b32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0;",
    );
    varying("ld.param.u64 %rd0, [x]; atom.global.add.u32 %r0, [%rd0], 1; setp.eq.u32 %p0, %r0, 0;");
    // The warp's number in a one-dimensional block.
    by_warp("mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; setp.eq.u32 %p0, %r1, 0;");
    by_warp("mov.u32 %r0, %tid.x; mov.b32 %r1, %r0; shr.u32 %r2, %r1, 6; setp.eq.u32 %p0, %r2, 0;");
    varying("mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 4; setp.eq.u32 %p0, %r1, 0;");
    by_warp("mov.u32 %r0, %tid.x; div.u32 %r1, %r0, 64; setp.eq.u32 %p0, %r1, 0;");
    varying("mov.u32 %r0, %tid.x; div.u32 %r1, %r0, 48; setp.eq.u32 %p0, %r1, 0;");
    by_warp("mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 96; setp.eq.u32 %p0, %r1, 0;");
    varying("mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; setp.eq.u32 %p0, %r1, 0;");
    varying("mov.u32 %r0, %tid.x; add.u32 %r0, %r0, 16; shr.u32 %r1, %r0, 5; setp.eq.u32 %p0, %r1, 0;");
    by_warp("mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 64;");
    by_warp("mov.u32 %r0, %tid.x; setp.le.u32 %p0, %r0, 31;");
    varying("mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 40;");
    varying("mov.u32 %r0, %tid.x; setp.le.u32 %p0, %r0, 32;");
    varying("mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 32;");
    // A false alarm, stated: the analysis does not tell two uses of one register apart.
    varying("mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; setp.eq.u32 %p0, %r0, 0;");
    // What a warp agrees on.
    by_warp("mov.u32 %r0, %tid.x; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; setp.eq.u32 %p0, %r1, 0;");
    varying("mov.u32 %r0, %tid.x; shfl.sync.idx.b32 %r1, %r0, %r0, 31, -1; setp.eq.u32 %p0, %r1, 0;");
    varying("mov.u32 %r0, %tid.x; shfl.sync.idx.b32 %r1, %r0, 0, 31, 255; setp.eq.u32 %p0, %r1, 0;");
    varying("mov.u32 %r0, %tid.x; shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; setp.eq.u32 %p0, %r1, 0;");
    by_warp("mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 3; vote.sync.any.pred %p0, %p1, -1;");
    // A mixture is as bad as its worst part; a choice by a varying predicate varies.
    varying("mov.u32 %r0, %tid.x; ld.param.u32 %r1, [n]; add.u32 %r1, %r1, %r0; setp.eq.u32 %p0, %r1, 0;");
    varying("mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 3; selp.b32 %r1, 1, 2, %p1; setp.eq.u32 %p0, %r1, 1;");
    // Written in some threads only: by a guard, by a branch, by a loop of varying length.
    varying(
        "mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 3; mov.b32 %r1, 0; @%p1 mov.b32 %r1, 1; \
         setp.eq.u32 %p0, %r1, 1;",
    );
    varying(
        "mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 3; mov.b32 %r1, 0; @%p1 bra A; mov.b32 %r1, 1; A: \
         setp.eq.u32 %p0, %r1, 1;",
    );
    varying(
        "mov.u32 %r0, %tid.x; mov.b32 %r1, 0; A: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r0; \
         @%p1 bra A; setp.eq.u32 %p0, %r1, 1;",
    );
    uniform(
        "ld.param.u32 %r0, [n]; mov.b32 %r1, 0; A: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r0; \
         @%p1 bra A; setp.eq.u32 %p0, %r1, 1;",
    );
}

#[test]
fn what_divergence_touches() {
    let tid = "mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;";
    // Guards, nested branches, early returns, and loops.
    breaks(Rule::DivergentBarrier, &format!("{tid} @%p0 bar.sync 0; ret;"));
    breaks(Rule::DivergentBarrier, &format!("{tid} @%p0 ret; bar.sync 0; ret;"));
    breaks(
        Rule::DivergentBarrier,
        &format!("{tid} ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p0 bra L; @%p1 bra L; bar.sync 0; L: ret;"),
    );
    breaks(
        Rule::DivergentBarrier,
        "mov.u32 %r0, %tid.x; A: bar.sync 0; sub.u32 %r0, %r0, 1; setp.gt.u32 %p0, %r0, 0; @%p0 bra A; ret;",
    );
    // After the paths meet again all is well.
    clean(&format!("{tid} @%p0 bra L; mov.b32 %r1, 1; L: bar.sync 0; ret;"));
    for op in [
        "bar.warp.sync -1;",
        "vote.sync.all.pred %p1, %p0, -1;",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [tile];",
        "bra.uni M; M:",
    ] {
        breaks(Rule::DivergentWarpOp, &format!("{tid} @%p0 bra L; {op} L: ret;"));
        clean(&format!("{tid} {op} ret;"));
    }
    // Without .maxntid nothing is known about %tid.x; in one warp, warp and block are one.
    let text = ptx::print(&module(
        "mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; setp.eq.u32 %p0, %r1, 0; @%p0 bra L; bar.sync 0; L: ret;",
    ));
    let with = |max: &str| {
        let module = parse(&text.replace(".maxntid 128, 1, 1", max)).unwrap();
        lint(&module).len()
    };
    assert_eq!(with(".maxntid 128, 1, 1"), 1);
    assert_eq!(with(""), 1);
    assert_eq!(with(".maxntid 32, 4, 1"), 1);
    assert_eq!(with(".maxntid 32, 1, 1"), 0);
}

#[test]
fn the_branch_is_named() {
    let findings = lint(&module("mov.u32 %r0, %tid.x;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra L;\nbar.sync 0;\nL: ret;"));
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.ends_with("the `bra` of line 14 parts them by %p0"), "{}", findings[0]);
    assert_eq!(findings[0].pos.line, 15);
}

#[test]
fn hardware_ids() {
    breaks(Rule::HardwareId, "mov.u32 %r0, %warpid; ret;");
}

/// An unsound kernel is a finding, not a panic, whatever its indices.
#[test]
fn structure() {
    let mut module = Module::new(vec![common::rmsnorm(), common::rmsnorm()]);
    let rules = |m: &Module| lint(m).iter().map(|f| f.rule).collect::<Vec<_>>();
    assert_eq!(rules(&module), [Rule::Structure]);
    module.kernels.pop();
    assert_eq!(rules(&module), []);
    module.version = (6, 0);
    assert_eq!(rules(&module), [Rule::Structure]);
    module.kernels[0].regs.truncate(3);
    assert!(rules(&module).iter().all(|r| *r == Rule::Structure));
    assert!(rules(&module).len() > 10);
    module.version = (7, 0);
    module.kernels[0].labels.clear();
    assert_eq!(rules(&module), [Rule::Structure]);
}

/// Many blocks and registers end in a finding, not in memory or time without bound.
#[test]
fn what_is_too_large_is_said() {
    let mut k = KernelBuilder::new("ladder");
    let n = k.param_u32("n");
    for i in 0..40_000_u32 {
        let p = k.setp_eq_u32(n, i);
        k.if_(p, |_| {});
    }
    let findings = lint(&Module::new(vec![k.finish()]));
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].rule, Rule::TooLarge);
}

/// The patterns kernels are written in.
#[test]
fn usual_patterns_are_clean() {
    let mut k = KernelBuilder::new("patterns");
    k.max_ntid(256, 1, 1);
    let (x, n) = (k.param_ptr("x"), k.param_u32("n"));
    let tile = k.shared("tile", 16, 1024);
    let tid = k.tid_x();
    let (lane, warp) = (k.and_b32(tid, 31), k.shr_u32(tid, 5));
    let base = k.shared_addr(tile);
    // A loop over tiles with barriers, its length from a parameter.
    let sum = k.mov_f32(0.0);
    k.for_u32(0, n, 256, |k, at| {
        let i = k.add_u32(at, tid);
        let inside = k.setp_lt_u32(i, n);
        let v = k.mov_f32(0.0);
        let p = k.mad_wide_u32(i, 4, x);
        k.with_guard(inside, |k| k.ld_global_into(v, p, 0));
        k.bar_sync(0);
        let slot = k.mad_lo_u32(tid, 4, base);
        k.st_shared(slot, 0, v);
        k.bar_sync(0);
        let w: F32 = k.ld_shared(base, 0);
        k.add_rn_into(sum, sum, w);
    });
    // One warp reduces.
    let first = k.setp_eq_u32(warp, 0);
    k.if_(first, |k| {
        let other = k.shfl_bfly(sum, 16);
        k.add_rn_into(sum, sum, other);
        let leader = k.setp_eq_u32(lane, 0);
        k.if_(leader, |k| k.st_global(x, 0, sum));
    });
    k.bar_sync(0);
    // Warps leave together when their tile is empty.
    let rows: R32 = k.ld_global(x, 4);
    let start = k.shl_b32(warp, 4);
    let idle = k.setp_ge_u32(start, rows);
    k.unless(idle, |k| {
        let _: [R32; 4] = k.ldmatrix(false, base, 0);
    });
    let findings = lint(&Module::new(vec![k.finish()]));
    assert_eq!(findings, []);
}
