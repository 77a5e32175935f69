//! Control flow: guards, branches, divergence and reconvergence, against an interpreter of one lane written here.

use crate::device::{Device, Random, all_options, compile};
use emulator::exec::Arg;
use ptx::ast::{IntOp, Type};
use ptx::builder::{KernelBuilder, P, R32, Source};

#[test]
fn a_guarded_element_wise_kernel_writes_its_elements_and_no_others() {
    let mut k = KernelBuilder::new("affine");
    let (x, y, n) = (k.param_ptr("x"), k.param_ptr("y"), k.param_u32("n"));
    let (cta, ntid, tid) = (k.ctaid_x(), k.ntid_x(), k.tid_x());
    let i = k.mad_lo_u32(cta, ntid, tid);
    let inside = k.setp_lt_u32(i, n);
    k.if_(inside, |k| {
        let from = k.mad_wide_u32(i, 4, x);
        let to = k.mad_wide_u32(i, 4, y);
        let v: R32 = k.ld_global(from, 0);
        let v = k.mad_lo_u32(v, 3, 7);
        k.st_global(to, 0, v);
    });
    let program = compile(k.finish());
    for options in all_options() {
        let mut device = Device::with(options);
        let x: Vec<u32> = (0..1000).collect();
        let (px, py) = (device.upload(&x), device.zeros(1024));
        let stats = device.launch(&program, 11, 96, &[px.into(), py.into(), Arg::U32(1000)]).unwrap();
        assert_eq!(stats.blocks, 11);
        let got = device.download(py, 1024);
        for (i, got) in got.into_iter().enumerate() {
            assert_eq!(got, if i < 1000 { 3 * i as u32 + 7 } else { 0 });
        }
    }
}

const VARS: usize = 5;

/// Variables of one lane; the last is not written by programs and holds the thread's number.
type Lane = [u32; VARS + 1];

#[derive(Clone, Copy, Debug)]
struct Set {
    op: IntOp,
    d: usize,
    a: usize,
    b: u32,
    /// `b` is a constant rather than a variable.
    constant: bool,
}

/// A condition: `var & mask` is not zero, or its opposite.
#[derive(Clone, Copy, Debug)]
struct Cond {
    var: usize,
    mask: u32,
    negate: bool,
}

#[derive(Clone, Debug)]
enum Stmt {
    Set(Set),
    Guarded(Cond, Set),
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    /// At most `var & 7` turns.
    Loop(usize, Vec<Stmt>),
    /// Leaves, or goes on with, the innermost loop.
    Break(Cond),
    Continue(Cond),
    Exit(Cond),
}

impl Set {
    fn random(r: &mut Random) -> Self {
        const OPS: [IntOp; 6] = [IntOp::Add, IntOp::Sub, IntOp::MulLo, IntOp::Xor, IntOp::Shl, IntOp::Shr];
        let constant = r.below(3) == 0;
        Set {
            op: OPS[r.below(6) as usize],
            d: r.below(VARS as u64) as usize,
            a: r.below(VARS as u64 + 1) as usize,
            b: if constant { r.below(40) as u32 } else { r.below(VARS as u64 + 1) as u32 },
            constant,
        }
    }

    fn run(&self, lane: &mut Lane) {
        let (a, b) = (lane[self.a], if self.constant { self.b } else { lane[self.b as usize] });
        lane[self.d] = match self.op {
            IntOp::Add => a.wrapping_add(b),
            IntOp::Sub => a.wrapping_sub(b),
            IntOp::MulLo => a.wrapping_mul(b),
            IntOp::Xor => a ^ b,
            IntOp::Shl => a.checked_shl(b).unwrap_or(0),
            _ => a.checked_shr(b).unwrap_or(0),
        };
    }

    fn build(&self, k: &mut KernelBuilder, vars: &[R32]) {
        let ty = match self.op {
            IntOp::Xor | IntOp::Shl => Type::B32,
            _ => Type::U32,
        };
        let b = if self.constant { Source::<R32>::operand(self.b) } else { vars[self.b as usize].operand() };
        k.emit(ptx::ast::Op::Int { op: self.op, ty, d: reg(vars[self.d]), a: vars[self.a].operand(), b });
    }
}

fn reg(r: R32) -> ptx::ast::Reg {
    match r.operand() {
        ptx::ast::Operand::Reg(reg) => reg,
        other => panic!("{other:?} is no register"),
    }
}

impl Cond {
    fn random(r: &mut Random) -> Self {
        Cond {
            var: r.below(VARS as u64 + 1) as usize,
            mask: 1 << r.below(6) | r.below(4) as u32,
            negate: r.below(2) == 0,
        }
    }

    fn holds(&self, lane: &Lane) -> bool {
        (lane[self.var] & self.mask != 0) != self.negate
    }

    fn build(&self, k: &mut KernelBuilder, vars: &[R32]) -> P {
        let masked = k.and_b32(vars[self.var], self.mask);
        if self.negate { k.setp_eq_u32(masked, 0) } else { k.setp_ne_u32(masked, 0) }
    }
}

fn random_block(r: &mut Random, depth: u32, in_loop: bool) -> Vec<Stmt> {
    (0..1 + r.below(4))
        .map(|_| match r.below(if depth == 0 { 5 } else { 10 }) {
            0..=2 => Stmt::Set(Set::random(r)),
            3 => Stmt::Guarded(Cond::random(r), Set::random(r)),
            4 if in_loop && r.below(2) == 0 => Stmt::Break(Cond::random(r)),
            4 if in_loop => Stmt::Continue(Cond::random(r)),
            4 if r.below(4) == 0 => Stmt::Exit(Cond::random(r)),
            4 => Stmt::Set(Set::random(r)),
            5..=7 => {
                let otherwise = if r.below(2) == 0 { Vec::new() } else { random_block(r, depth - 1, in_loop) };
                Stmt::If(Cond::random(r), random_block(r, depth - 1, in_loop), otherwise)
            }
            _ => Stmt::Loop(r.below(VARS as u64 + 1) as usize, random_block(r, depth - 1, true)),
        })
        .collect()
}

#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
    Exit,
}

fn run(block: &[Stmt], lane: &mut Lane) -> Flow {
    for stmt in block {
        match stmt {
            Stmt::Set(set) => set.run(lane),
            Stmt::Guarded(cond, set) => {
                if cond.holds(lane) {
                    set.run(lane);
                }
            }
            Stmt::If(cond, yes, no) => match run(if cond.holds(lane) { yes } else { no }, lane) {
                Flow::Next => {}
                flow => return flow,
            },
            Stmt::Loop(var, body) => {
                for _ in 0..lane[*var] & 7 {
                    match run(body, lane) {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        Flow::Exit => return Flow::Exit,
                    }
                }
            }
            Stmt::Break(cond) if cond.holds(lane) => return Flow::Break,
            Stmt::Continue(cond) if cond.holds(lane) => return Flow::Continue,
            Stmt::Exit(cond) if cond.holds(lane) => return Flow::Exit,
            Stmt::Break(_) | Stmt::Continue(_) | Stmt::Exit(_) => {}
        }
    }
    Flow::Next
}

struct Labels {
    end: ptx::ast::Label,
    next: ptx::ast::Label,
}

fn build(k: &mut KernelBuilder, block: &[Stmt], vars: &[R32], exit: ptx::ast::Label, labels: Option<&Labels>) {
    for stmt in block {
        match (stmt, labels) {
            (Stmt::Set(set), _) => set.build(k, vars),
            (Stmt::Guarded(cond, set), _) => {
                let p = cond.build(k, vars);
                k.with_guard(p, |k| set.build(k, vars));
            }
            (Stmt::If(cond, yes, no), _) => {
                let p = cond.build(k, vars);
                if no.is_empty() {
                    k.if_(p, |k| build(k, yes, vars, exit, labels));
                } else {
                    k.if_else(p, |k| build(k, yes, vars, exit, labels), |k| build(k, no, vars, exit, labels));
                }
            }
            (Stmt::Loop(var, body), _) => {
                let turns = k.and_b32(vars[*var], 7);
                let i = k.mov_b32(0u32);
                let (top, labels) = (k.label(), Labels { end: k.label(), next: k.label() });
                k.place(top);
                let p = k.setp_ge_u32(i, turns);
                k.bra_if(p, labels.end);
                build(k, body, vars, exit, Some(&labels));
                k.place(labels.next);
                k.emit(ptx::ast::Op::Int {
                    op: IntOp::Add,
                    ty: Type::U32,
                    d: reg(i),
                    a: i.operand(),
                    b: ptx::ast::Operand::Int(1),
                });
                k.bra(top);
                k.place(labels.end);
            }
            (Stmt::Break(cond), Some(labels)) => {
                let p = cond.build(k, vars);
                k.bra_if(p, labels.end);
            }
            (Stmt::Continue(cond), Some(labels)) => {
                let p = cond.build(k, vars);
                k.bra_if(p, labels.next);
            }
            (Stmt::Exit(cond), _) => {
                let p = cond.build(k, vars);
                k.bra_if(p, exit);
            }
            (Stmt::Break(_) | Stmt::Continue(_), None) => unreachable!("only generated inside loops"),
        }
    }
}

/// Variables at the start, from the thread's number.
fn start(tid: u32) -> Lane {
    [tid, tid.wrapping_mul(0x9e37_79b1), 5, tid >> 2, 0xf0f0, tid]
}

fn build_start(k: &mut KernelBuilder) -> Vec<R32> {
    let tid = k.tid_x();
    let mut vars = vec![k.mov_b32(tid), k.mul_lo_u32(tid, 0x9e37_79b1u32), k.mov_b32(5u32)];
    vars.extend([k.shr_u32(tid, 2), k.mov_b32(0xf0f0u32), tid]);
    vars
}

fn store_vars(k: &mut KernelBuilder, out: ptx::builder::R64, vars: &[R32]) {
    let at = k.mad_wide_u32(vars[VARS], 4 * VARS as u32, out);
    for (i, &v) in vars[..VARS].iter().enumerate() {
        k.st_global(at, 4 * i as i64, v);
    }
}

/// Runs a kernel that leaves its variables in memory and compares with `lane` run for every thread.
fn compare(k: KernelBuilder, lane: impl Fn(&mut Lane), what: &dyn std::fmt::Debug) {
    let program = compile(k.finish());
    let threads = 83;
    for options in all_options() {
        let mut device = Device::with(options);
        let out = device.zeros(threads * VARS);
        device.launch(&program, 1, threads as u32, &[out.into()]).unwrap_or_else(|e| panic!("{e}\n{what:#?}"));
        let got = device.download(out, threads * VARS);
        for (tid, got) in got.chunks_exact(VARS).enumerate() {
            let mut want = start(tid as u32);
            lane(&mut want);
            assert_eq!(got, &want[..VARS], "thread {tid}, {options:?}\n{what:#?}");
        }
    }
}

#[test]
fn random_structured_programs_do_what_each_lane_alone_would() {
    let mut r = Random(1);
    for _ in 0..250 {
        let body = random_block(&mut r, 3, false);
        let mut k = KernelBuilder::new("structured");
        let out = k.param_ptr("out");
        let vars = build_start(&mut k);
        let exit = k.label();
        build(&mut k, &body, &vars, exit, None);
        k.place(exit);
        store_vars(&mut k, out, &vars);
        compare(
            k,
            |lane| {
                run(&body, lane);
            },
            &body,
        );
    }
}

/// Blocks that branch anywhere: `(sets, condition, target if it holds, target otherwise)`, in one case the next.
#[derive(Clone, Debug)]
struct Jump {
    sets: Vec<Set>,
    cond: Option<Cond>,
    target: usize,
}

#[test]
fn random_gotos_do_what_each_lane_alone_would() {
    const FUEL: u32 = 40;
    let mut r = Random(2);
    for _ in 0..250 {
        let n = 2 + r.below(9) as usize;
        let blocks: Vec<Jump> = (0..n)
            .map(|_| Jump {
                sets: (0..r.below(3)).map(|_| Set::random(&mut r)).collect(),
                cond: (r.below(4) != 0).then(|| Cond::random(&mut r)),
                target: r.below(n as u64 + 1) as usize,
            })
            .collect();
        let mut k = KernelBuilder::new("gotos");
        let out = k.param_ptr("out");
        let vars = build_start(&mut k);
        let fuel = k.mov_b32(FUEL);
        let labels: Vec<_> = (0..=n).map(|_| k.label()).collect();
        for (i, jump) in blocks.iter().enumerate() {
            k.place(labels[i]);
            // Every lane leaves after so many blocks.
            let empty = k.setp_eq_u32(fuel, 0);
            k.bra_if(empty, labels[n]);
            k.sub_u32_into(fuel, fuel, 1);
            jump.sets.iter().for_each(|set| set.build(&mut k, &vars));
            match jump.cond {
                Some(cond) => {
                    let p = cond.build(&mut k, &vars);
                    k.bra_if(p, labels[jump.target]);
                }
                None => k.bra(labels[jump.target]),
            }
        }
        k.place(labels[n]);
        store_vars(&mut k, out, &vars);
        let lane = |lane: &mut Lane| {
            let (mut at, mut fuel) = (0, FUEL);
            while at < n && fuel > 0 {
                fuel -= 1;
                blocks[at].sets.iter().for_each(|set| set.run(lane));
                at = if blocks[at].cond.is_none_or(|c| c.holds(lane)) { blocks[at].target } else { at + 1 };
            }
        };
        compare(k, lane, &blocks);
    }
}

#[test]
fn lanes_that_return_early_do_not_hold_up_the_others() {
    let mut k = KernelBuilder::new("early");
    let out = k.param_ptr("out");
    let tid = k.tid_x();
    let at = k.mad_wide_u32(tid, 4, out);
    k.st_global(at, 0, k_const(1));
    let odd = k.and_b32(tid, 1);
    let odd = k.setp_ne_u32(odd, 0);
    k.ret_if(odd);
    let big = k.setp_gt_u32(tid, 40);
    k.if_(big, |k| {
        k.st_global(at, 0, k_const(2));
        k.ret();
    });
    k.st_global(at, 0, k_const(3));
    let program = compile(k.finish());
    for options in all_options() {
        let mut device = Device::with(options);
        let out = device.zeros(64);
        device.launch(&program, 1, 64, &[out.into()]).unwrap();
        for (i, got) in device.download(out, 64).into_iter().enumerate() {
            assert_eq!(
                got,
                if i % 2 == 1 {
                    1
                } else if i > 40 {
                    2
                } else {
                    3
                }
            );
        }
    }
}

/// An immediate, typed for a store.
fn k_const(v: u32) -> impl Source<R32> {
    v
}
