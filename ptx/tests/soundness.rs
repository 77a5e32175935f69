//! The lint's silence against the truth: random small kernels, run thread by thread.
//!
//! The oracle knows nothing of control-flow graphs or dominance. It executes each thread of a block
//! of two warps by itself and compares what they did. Where the lint finds nothing, all threads must
//! have passed the same barriers in the same order, the threads of each warp the same warp barriers,
//! and no thread may have read a register it had not written.

use ptx::ast::*;
use ptx::{Rule, Severity};

/// A small generator of numbers (xorshift64*), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const WORDS: u32 = 5;
const PREDICATES: u32 = 3;
const THREADS: u32 = 64;
/// The register that starts as `%tid.x`.
const TID: Reg = Reg(0);

/// A word; that of the thread's index is wanted more often than others.
fn word(random: &mut Random) -> Reg {
    if random.below(4) == 0 { TID } else { Reg(random.below(WORDS.into()) as u32) }
}

fn predicate(random: &mut Random) -> Reg {
    Reg(WORDS + random.below(PREDICATES.into()) as u32)
}

fn number(random: &mut Random) -> Operand {
    Operand::Int(random.pick(&[0, 0, 1, 1, 2, 3, 31, 32]))
}

fn compare(random: &mut Random, a: Reg) -> Op {
    let cmp = random.pick(&[Cmp::Eq, Cmp::Lt, Cmp::Le, Cmp::Gt, Cmp::Ge]);
    let (d, a, b) = (predicate(random), Operand::Reg(a), number(random));
    Op::Setp { cmp, ty: Type::U32, ftz: false, d, a, b }
}

fn operation(random: &mut Random, labels: u32) -> (Op, bool) {
    // The thread's index mostly keeps its register.
    let d = Reg(u32::from(random.below(8) > 0) * (1 + random.below(u64::from(WORDS) - 1) as u32));
    match random.below(10) {
        0 | 1 => {
            let a = if random.below(2) == 0 { Operand::Reg(word(random)) } else { number(random) };
            (Op::Mov { ty: Type::B32, d, a }, true)
        }
        2 | 3 => {
            let op = random.pick(&[IntOp::Add, IntOp::Sub, IntOp::Shr, IntOp::Div, IntOp::And]);
            let ty = if op == IntOp::And { Type::B32 } else { Type::U32 };
            let b = match (op, number(random)) {
                (IntOp::Div, _) => Operand::Int(random.pick(&[8, 32, 48])),
                (IntOp::Shr, _) => Operand::Int(random.pick(&[3, 4, 5, 6])),
                (_, b) => b,
            };
            (Op::Int { op, ty, d, a: Operand::Reg(word(random)), b }, true)
        }
        4 | 5 => {
            let a = word(random);
            (compare(random, a), false)
        }
        6 => {
            let (a, b) = (number(random), Operand::Reg(word(random)));
            (Op::Selp { ty: Type::B32, d, a, b, p: predicate(random) }, false)
        }
        7 => (Op::Ret, true),
        _ => (Op::Bra { uni: false, target: Label(random.below(labels.into()) as u32) }, true),
    }
}

/// A kernel of a few definitions and a random tangle of branches over them.
fn kernel(random: &mut Random) -> Kernel {
    let labels = 1 + random.below(3) as u32;
    let mut body = Vec::new();
    let inst = |op, guard| Stmt::Inst(Inst { guard, op, pos: Pos::NONE });
    // Most kernels define everything first, so that silence is common enough to be tested.
    if random.below(8) > 0 {
        for i in 0..WORDS {
            let a = match i {
                0 => Operand::Special(Special::TidX),
                1 => Operand::Special(Special::CtaidX),
                _ => number(random),
            };
            body.push(inst(Op::Mov { ty: Type::U32, d: Reg(i), a }, None));
        }
        for i in 0..PREDICATES {
            let a = Operand::Reg(Reg(u32::from(random.below(5) > 0)));
            let b = number(random);
            body.push(inst(Op::Setp { cmp: Cmp::Ge, ty: Type::U32, ftz: false, d: Reg(WORDS + i), a, b }, None));
        }
    }
    let defined = body.len() as u64;
    for _ in 0..2 + random.below(7) {
        let (op, may_guard) = operation(random, labels);
        let likely = if matches!(op, Op::Bra { .. } | Op::Ret) { 9 } else { 4 };
        let guard = (may_guard && random.below(10) < likely)
            .then(|| Guard { reg: predicate(random), negate: random.below(2) == 0 });
        body.push(inst(op, guard));
    }
    let mut insert = |random: &mut Random, stmt| {
        let at = defined + random.below(body.len() as u64 + 1 - defined);
        body.insert(at as usize, stmt);
    };
    // One barrier of either kind, sometimes two.
    for _ in 0..1 + random.below(4) / 3 {
        let op = match random.below(2) {
            0 => Op::BarSync { id: 0 },
            _ => Op::WarpSync { mask: Operand::Int(-1) },
        };
        insert(random, inst(op, None));
    }
    for label in 0..labels {
        insert(random, Stmt::Label(Label(label)));
    }
    body.push(inst(Op::Ret, None));
    // Labels are numbered in the order of their places.
    let mut place = vec![Label(0); labels as usize];
    let mut next = 0;
    for stmt in &mut body {
        if let Stmt::Label(label) = stmt {
            place[label.0 as usize] = Label(next);
            *label = Label(next);
            next += 1;
        }
    }
    for stmt in &mut body {
        if let Stmt::Inst(Inst { op: Op::Bra { target, .. }, .. }) = stmt {
            *target = place[target.0 as usize];
        }
    }
    let words = (0..WORDS).map(|i| RegDecl { name: format!("%r{i}"), ty: Type::B32 });
    let predicates = (0..PREDICATES).map(|i| RegDecl { name: format!("%p{i}"), ty: Type::Pred });
    Kernel {
        name: "k".to_owned(),
        params: Vec::new(),
        max_ntid: Some([THREADS, 1, 1]),
        regs: words.chain(predicates).collect(),
        shared: Vec::new(),
        labels: (0..labels).map(|i| format!("L{i}")).collect(),
        body,
    }
}

/// What one thread did.
#[derive(Default, PartialEq)]
struct Trace {
    barriers: Vec<usize>,
    warp_barriers: Vec<usize>,
    read_undefined: bool,
    /// Ran out of steps.
    endless: bool,
}

fn run(kernel: &Kernel, tid: u32) -> Trace {
    let mut trace = Trace::default();
    let mut regs: Vec<Option<u32>> = vec![None; kernel.regs.len()];
    let place = |label: Label| kernel.body.iter().position(|s| *s == Stmt::Label(label)).unwrap();
    let mut at = 0;
    for _ in 0..300 {
        let Some(stmt) = kernel.body.get(at) else { return trace };
        at += 1;
        let Stmt::Inst(inst) = stmt else { continue };
        let undefined = std::cell::Cell::new(false);
        // Garbage differs from thread to thread.
        let get = |reg: Reg| {
            regs[reg.0 as usize].unwrap_or_else(|| {
                undefined.set(true);
                tid.wrapping_mul(0x9e37_79b9) >> 7
            })
        };
        if let Some(guard) = inst.guard {
            let taken = (get(guard.reg) & 1 == 1) != guard.negate;
            trace.read_undefined |= undefined.get();
            if !taken {
                continue;
            }
        }
        let operand = |o: Operand| match o {
            Operand::Reg(reg) => get(reg),
            Operand::Int(v) => v as u32,
            Operand::Special(Special::TidX) => tid,
            _ => 7, // the block's index
        };
        let result = match &inst.op {
            Op::Mov { d, a, .. } => Some((*d, operand(*a))),
            Op::Int { op, d, a, b, .. } => {
                let (a, b) = (operand(*a), operand(*b));
                let value = match op {
                    IntOp::Add => a.wrapping_add(b),
                    IntOp::Sub => a.wrapping_sub(b),
                    IntOp::Shr => a.checked_shr(b).unwrap_or(0),
                    IntOp::Div => a / b,
                    _ => a & b,
                };
                Some((*d, value))
            }
            Op::Setp { cmp, d, a, b, .. } => {
                let (a, b) = (operand(*a), operand(*b));
                let holds = match cmp {
                    Cmp::Eq => a == b,
                    Cmp::Lt => a < b,
                    Cmp::Le => a <= b,
                    Cmp::Gt => a > b,
                    _ => a >= b,
                };
                Some((*d, holds.into()))
            }
            Op::Selp { d, a, b, p, .. } => {
                let (a, b) = (operand(*a), operand(*b));
                let p = operand(Operand::Reg(*p));
                Some((*d, if p & 1 == 1 { a } else { b }))
            }
            Op::Bra { target, .. } => {
                at = place(*target);
                None
            }
            Op::Ret => return trace,
            Op::BarSync { .. } => {
                trace.barriers.push(at - 1);
                None
            }
            _ => {
                trace.warp_barriers.push(at - 1);
                None
            }
        };
        trace.read_undefined |= undefined.get();
        if let Some((d, value)) = result {
            regs[d.0 as usize] = Some(value);
        }
    }
    trace.endless = true;
    trace
}

#[test]
fn silence_is_true() {
    let mut random = Random(0x1a57_b17e);
    // How often each thing was put to the test.
    let (mut clean, mut clean_with_branches, mut diverged, mut undefined) = (0, 0, 0, 0);
    for _ in 0..60_000 {
        let kernel = kernel(&mut random);
        let module = Module::new(vec![kernel]);
        ptx::validate(&module).unwrap();
        let kernel = &module.kernels[0];
        let findings = ptx::lint(&module);
        let found = |rule| findings.iter().any(|f| f.rule == rule);
        let traces: Vec<Trace> = (0..THREADS).map(|tid| run(kernel, tid)).collect();
        let warps = [&traces[..32], &traces[32..]];
        let barriers_agree = traces.iter().all(|t| t.barriers == traces[0].barriers);
        let warps_agree = warps.iter().all(|w| w.iter().all(|t| t.warp_barriers == w[0].warp_barriers));
        let read_undefined = traces.iter().any(|t| t.read_undefined);
        let text = || format!("{findings:?}\n{}", ptx::print(&module));
        if read_undefined {
            undefined += 1;
            assert!(found(Rule::UndefinedRegister), "{}", text());
        }
        // Threads cut off in an endless loop stop anywhere; undefined values have been judged.
        if traces.iter().any(|t| t.endless) || found(Rule::UndefinedRegister) {
            continue;
        }
        if !barriers_agree {
            diverged += 1;
            assert!(found(Rule::DivergentBarrier), "{}", text());
        }
        if !warps_agree {
            assert!(found(Rule::DivergentWarpOp), "{}", text());
        }
        let arrived = traces.iter().any(|t| !t.barriers.is_empty() || !t.warp_barriers.is_empty());
        if findings.iter().all(|f| f.severity < Severity::Error) && arrived {
            clean += 1;
            let conditional = |s: &Stmt| matches!(s, Stmt::Inst(Inst { op: Op::Bra { .. }, guard: Some(_), .. }));
            clean_with_branches += u32::from(kernel.body.iter().any(conditional));
        }
    }
    println!("{clean} clean, {clean_with_branches} of them with branches; {diverged} diverged, {undefined} undefined");
    assert!(clean > 20_000 && clean_with_branches > 8_000 && diverged > 1_000 && undefined > 5_000);
}
