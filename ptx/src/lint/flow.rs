//! Basic blocks, reachability, post-dominators and control dependence.

use super::{Report, Rule};
use crate::ast::{Guard, Inst, Kernel, Op, Stmt};

/// Beyond any kernel that is meant; keeps the analyses' memory below some hundred megabytes.
const MAX_BLOCKS: usize = 1 << 15;
const MAX_DEPENDENCES: usize = 1 << 22;

/// A run of statements that execute together.
pub(super) struct Block {
    /// First statement.
    pub(super) start: usize,
    /// One past the last statement.
    pub(super) end: usize,
    /// Blocks that may follow; [`Flow::exit`] for the end of the thread.
    pub(super) successors: Vec<usize>,
    /// Some entry leads here.
    pub(super) reachable: bool,
    /// Some way leads from here to the end.
    terminates: bool,
    /// Blocks whose last branch decides whether this one runs.
    pub(super) depends_on: Vec<usize>,
}

/// The control-flow graph of a kernel.
pub(super) struct Flow<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) blocks: Vec<Block>,
    /// Blocks in reverse post-order, reachable ones only.
    pub(super) order: Vec<usize>,
    falls_off: bool,
}

/// How control leaves an instruction: the target block is filled in later.
enum Leave {
    Next,
    Branch(u32, Option<Guard>),
    End(Option<Guard>),
}

fn leave(stmt: &Stmt) -> Leave {
    match stmt {
        Stmt::Inst(Inst { op: Op::Bra { target, .. }, guard, .. }) => Leave::Branch(target.0, *guard),
        Stmt::Inst(Inst { op: Op::Ret | Op::Exit, guard, .. }) => Leave::End(*guard),
        _ => Leave::Next,
    }
}

impl<'k> Flow<'k> {
    /// The graph of a valid kernel.
    ///
    /// # Errors
    /// Says what is too large.
    pub(super) fn new(kernel: &'k Kernel) -> Result<Self, &'static str> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut label_block = vec![0; kernel.labels.len()];
        let mut open = false;
        for (i, stmt) in kernel.body.iter().enumerate() {
            if !open || matches!(stmt, Stmt::Label(_)) {
                if let Some(last) = blocks.last_mut() {
                    last.end = i;
                }
                if blocks.len() == MAX_BLOCKS {
                    return Err("more basic blocks than the analyses take on");
                }
                blocks.push(Block {
                    start: i,
                    end: kernel.body.len(),
                    successors: Vec::new(),
                    reachable: false,
                    terminates: false,
                    depends_on: Vec::new(),
                });
            }
            if let Stmt::Label(label) = stmt {
                label_block[label.0 as usize] = blocks.len() - 1;
            }
            open = matches!(leave(stmt), Leave::Next);
        }
        let mut flow = Flow { kernel, blocks, order: Vec::new(), falls_off: false };
        flow.connect(&label_block);
        flow.reach();
        flow.dependences()?;
        Ok(flow)
    }

    /// The index that stands for the end of the thread.
    pub(super) fn exit(&self) -> usize {
        self.blocks.len()
    }

    /// The branch or return that ends a block, with its statement index and guard.
    pub(super) fn branch(&self, block: usize) -> Option<(usize, Option<Guard>)> {
        let last = self.blocks[block].end.checked_sub(1)?;
        match leave(&self.kernel.body[last]) {
            Leave::Next => None,
            Leave::Branch(_, guard) | Leave::End(guard) => Some((last, guard)),
        }
    }

    fn connect(&mut self, label_block: &[usize]) {
        let exit = self.exit();
        for i in 0..self.blocks.len() {
            let next = i + 1; // equals `exit` for the last block
            let last = &self.kernel.body[self.blocks[i].end - 1];
            let (target, guard) = match leave(last) {
                Leave::Next => (next, None),
                Leave::Branch(label, guard) => (label_block[label as usize], guard),
                Leave::End(guard) => (exit, guard),
            };
            let successors = &mut self.blocks[i].successors;
            successors.push(target);
            if guard.is_some() && target != next {
                successors.push(next);
            }
        }
    }

    /// Marks what an entry reaches and what reaches the end; lists blocks in reverse post-order.
    fn reach(&mut self) {
        let exit = self.exit();
        let mut stack = Vec::new();
        if !self.blocks.is_empty() {
            self.blocks[0].reachable = true;
            stack.push((0, 0));
        }
        while let Some((block, next)) = stack.pop() {
            match self.blocks[block].successors.get(next).copied() {
                Some(successor) => {
                    stack.push((block, next + 1));
                    if successor != exit && !self.blocks[successor].reachable {
                        self.blocks[successor].reachable = true;
                        stack.push((successor, 0));
                    }
                }
                None => self.order.push(block),
            }
        }
        self.order.reverse();
        let predecessors = self.predecessors();
        let mut stack = predecessors[exit].clone();
        while let Some(block) = stack.pop() {
            if !std::mem::replace(&mut self.blocks[block].terminates, true) {
                stack.extend(&predecessors[block]);
            }
        }
        let falls = |b: &Block| {
            b.reachable
                && b.end == self.kernel.body.len()
                && match leave(&self.kernel.body[b.end - 1]) {
                    Leave::Next => true,
                    Leave::Branch(_, guard) | Leave::End(guard) => guard.is_some(),
                }
        };
        self.falls_off = self.blocks.last().is_none_or(falls);
    }

    /// Predecessors of every block and, last, of the end; of reachable blocks only.
    pub(super) fn predecessors(&self) -> Vec<Vec<usize>> {
        let mut predecessors = vec![Vec::new(); self.blocks.len() + 1];
        for &block in &self.order {
            for &successor in &self.blocks[block].successors {
                predecessors[successor].push(block);
            }
        }
        predecessors
    }

    /// Post-dominators (Cooper, Harvey and Kennedy's iteration on the reversed graph), then
    /// control dependence (Ferrante, Ottenstein and Warren).
    fn dependences(&mut self) -> Result<(), &'static str> {
        let exit = self.exit();
        // Blocks that never reach the end get an edge to it, so that the tree covers them; they
        // are findings anyway.
        let mut edges: Vec<Vec<usize>> = self.blocks.iter().map(|b| b.successors.clone()).collect();
        for &block in &self.order {
            if !self.blocks[block].terminates {
                edges[block].push(exit);
            }
        }
        let mut predecessors = vec![Vec::new(); exit + 1];
        for &block in &self.order {
            for &successor in &edges[block] {
                predecessors[successor].push(block);
            }
        }
        // Reverse post-order of the reversed graph.
        let mut seen = vec![false; exit + 1];
        let mut post = Vec::new();
        let mut stack = vec![(exit, 0)];
        seen[exit] = true;
        while let Some((node, next)) = stack.pop() {
            match predecessors[node].get(next).copied() {
                Some(p) => {
                    stack.push((node, next + 1));
                    if !std::mem::replace(&mut seen[p], true) {
                        stack.push((p, 0));
                    }
                }
                None => post.push(node),
            }
        }
        let mut number = vec![0; exit + 1];
        for (i, &node) in post.iter().enumerate() {
            number[node] = i;
        }
        let mut parent: Vec<Option<usize>> = vec![None; exit + 1];
        parent[exit] = Some(exit);
        let mut changed = true;
        while changed {
            changed = false;
            for &node in post.iter().rev().filter(|n| **n != exit) {
                let mut best: Option<usize> = None;
                for &s in edges[node].iter().filter(|s| parent[**s].is_some()) {
                    best = Some(best.map_or(s, |b| meet(&parent, &number, b, s)));
                }
                if best.is_some() && parent[node] != best {
                    parent[node] = best;
                    changed = true;
                }
            }
        }
        let mut total = 0;
        for &block in &self.order {
            if edges[block].len() < 2 {
                continue;
            }
            let stop = parent[block];
            for &successor in &edges[block] {
                let mut at = successor;
                while Some(at) != stop && at != exit {
                    let depends_on = &mut self.blocks[at].depends_on;
                    if depends_on.last() != Some(&block) {
                        depends_on.push(block);
                        total += 1;
                    }
                    if total > MAX_DEPENDENCES {
                        return Err("more control dependences than the analyses take on");
                    }
                    at = parent[at].unwrap_or(exit);
                }
            }
        }
        Ok(())
    }

    /// Control flow that cannot be meant.
    pub(super) fn findings(&self, report: &mut Report<'_>) {
        if self.falls_off {
            let last = self.kernel.body.len().checked_sub(1);
            report.add(
                Rule::FallOffEnd,
                last,
                "control can run past the last statement: end the kernel with ret".to_owned(),
            );
        }
        for block in &self.blocks {
            if !block.reachable {
                report.add(Rule::Unreachable, Some(block.start), "no path leads here".to_owned());
            } else if !block.terminates {
                report.add(
                    Rule::NoExit,
                    Some(block.start),
                    "no path leads from here to the end of the kernel".to_owned(),
                );
            }
        }
    }
}

/// The nearest common ancestor in the post-dominator tree.
fn meet(parent: &[Option<usize>], number: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while number[a] < number[b] {
            match parent[a] {
                Some(p) => a = p,
                None => return b,
            }
        }
        while number[b] < number[a] {
            match parent[b] {
                Some(p) => b = p,
                None => return a,
            }
        }
    }
    a
}
