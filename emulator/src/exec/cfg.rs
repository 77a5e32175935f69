//! The control-flow graph of a kernel and where its divergent branches reconverge.
//!
//! A branch reconverges at its immediate post-dominator: the first instruction that every lane passes, whichever way it
//! went (or the end of the kernel). Post-dominators by the iteration of Cooper, Harvey and Kennedy, "A simple, fast
//! dominance algorithm" (2001), on the reversed graph.

use std::ops::Range;

/// How an instruction passes control on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// To the next instruction.
    Next,
    /// To instruction `target`; also to the next one when `guarded`.
    Branch { target: u32, guarded: bool },
    /// Nowhere; to the next instruction for some lanes when `guarded`.
    Exit { guarded: bool },
}

/// Basic blocks in program order, and one virtual exit.
#[derive(Debug)]
pub(super) struct Cfg {
    blocks: Vec<Range<u32>>,
    successors: Vec<Vec<u32>>,
    predecessors: Vec<Vec<u32>>,
    block_of: Vec<u32>,
}

impl Cfg {
    /// Cuts the program into blocks. Instruction `flow.len()` (falling off the end) is the virtual exit.
    pub fn new(flow: &[Flow]) -> Self {
        let n = flow.len();
        let mut leader = vec![false; n + 1];
        leader[0] = true;
        for (i, f) in flow.iter().enumerate() {
            match *f {
                Flow::Next => continue,
                Flow::Branch { target, .. } => leader[target as usize] = true,
                Flow::Exit { .. } => {}
            }
            leader[i + 1] = true;
        }
        let starts: Vec<u32> = (0..n as u32).filter(|&i| leader[i as usize]).collect();
        let ends = starts.iter().copied().skip(1).chain([n as u32]);
        let blocks: Vec<Range<u32>> = starts.iter().zip(ends).map(|(&s, e)| s..e).collect();
        let exit = blocks.len() as u32;
        let mut block_of = vec![exit; n + 1];
        for (b, range) in blocks.iter().enumerate() {
            block_of[range.start as usize..range.end as usize].fill(b as u32);
        }
        let successors: Vec<Vec<u32>> = blocks
            .iter()
            .map(|range| {
                let next = block_of[range.end as usize];
                match flow[range.end as usize - 1] {
                    Flow::Next => vec![next],
                    Flow::Branch { target, guarded: false } => vec![block_of[target as usize]],
                    Flow::Branch { target, guarded: true } => vec![block_of[target as usize], next],
                    Flow::Exit { guarded: false } => vec![exit],
                    Flow::Exit { guarded: true } => vec![exit, next],
                }
            })
            .collect();
        let mut predecessors = vec![Vec::new(); blocks.len() + 1];
        for (b, list) in successors.iter().enumerate() {
            for &s in list {
                predecessors[s as usize].push(b as u32);
            }
        }
        Cfg { blocks, successors, predecessors, block_of }
    }

    /// Instructions of each block.
    pub fn blocks(&self) -> &[Range<u32>] {
        &self.blocks
    }

    /// Blocks that may run just before `block`.
    pub fn predecessors(&self, block: u32) -> &[u32] {
        &self.predecessors[block as usize]
    }

    /// The block of an instruction.
    pub fn block_of(&self, instruction: u32) -> u32 {
        self.block_of[instruction as usize]
    }

    /// For every block the first instruction of its immediate post-dominator; the program's length where that is the exit.
    pub fn reconvergence(&self) -> Vec<u32> {
        let exit = self.blocks.len();
        // Blocks that never reach the exit (endless loops) get an edge to it: they reconverge nowhere earlier.
        let mut order = Vec::new();
        let mut seen = vec![false; exit + 1];
        let mut endless = Vec::new();
        self.reverse_postorder_to(exit as u32, &[], &mut seen, &mut order);
        if order.len() <= exit {
            endless = (0..exit as u32).filter(|&b| !seen[b as usize]).collect();
            seen.fill(false);
            order.clear();
            self.reverse_postorder_to(exit as u32, &endless, &mut seen, &mut order);
        }
        let mut rank = vec![0usize; exit + 1];
        for (r, &b) in order.iter().enumerate() {
            rank[b as usize] = r;
        }
        let mut is_endless = vec![false; exit];
        for b in endless {
            is_endless[b as usize] = true;
        }
        const UNKNOWN: u32 = u32::MAX;
        let mut parent = vec![UNKNOWN; exit + 1];
        parent[exit] = exit as u32;
        let mut changed = true;
        while changed {
            changed = false;
            // `order` is a postorder of the reversed graph; walk it backwards, the exit first.
            for &b in order.iter().rev().skip(1) {
                let extra = is_endless[b as usize].then_some(exit as u32);
                let mut best = UNKNOWN;
                for s in self.successors[b as usize].iter().copied().chain(extra) {
                    if parent[s as usize] == UNKNOWN {
                        continue;
                    }
                    best = if best == UNKNOWN { s } else { intersect(&parent, &rank, best, s) };
                }
                if parent[b as usize] != best {
                    parent[b as usize] = best;
                    changed = true;
                }
            }
        }
        let end = self.blocks.last().map_or(0, |r| r.end);
        (0..exit).map(|b| self.blocks.get(parent[b] as usize).map_or(end, |r| r.start)).collect()
    }

    /// Postorder of the reversed graph from `root`; `extra` blocks count as predecessors of `root`.
    fn reverse_postorder_to(&self, root: u32, extra: &[u32], seen: &mut [bool], order: &mut Vec<u32>) {
        let mut stack = vec![(root, 0usize)];
        seen[root as usize] = true;
        while let Some((b, next)) = stack.last_mut() {
            let own = &self.predecessors[*b as usize];
            let child = match own.get(*next) {
                Some(&p) => Some(p),
                None if *b == root => extra.get(*next - own.len()).copied(),
                None => None,
            };
            *next += 1;
            match child {
                Some(p) if !seen[p as usize] => {
                    seen[p as usize] = true;
                    stack.push((p, 0));
                }
                Some(_) => {}
                None => {
                    order.push(*b);
                    stack.pop();
                }
            }
        }
    }
}

/// The nearest common ancestor in the tree built so far. Ancestors have higher ranks.
fn intersect(parent: &[u32], rank: &[usize], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        if rank[a as usize] < rank[b as usize] {
            a = parent[a as usize];
        } else {
            b = parent[b as usize];
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(target: u32) -> Flow {
        Flow::Branch { target, guarded: true }
    }

    fn jump(target: u32) -> Flow {
        Flow::Branch { target, guarded: false }
    }

    #[test]
    fn if_else_reconverges_after_both_arms() {
        // 0: @p bra 3; 1: x; 2: bra 4; 3: y; 4: z
        let cfg = Cfg::new(&[branch(3), Flow::Next, jump(4), Flow::Next, Flow::Exit { guarded: false }]);
        assert_eq!(cfg.reconvergence()[cfg.block_of(0) as usize], 4);
        assert_eq!(cfg.blocks().len(), 4);
    }

    #[test]
    fn a_loop_reconverges_behind_it() {
        // 0: x; 1: @p bra 0; 2: exit
        let cfg = Cfg::new(&[Flow::Next, branch(0), Flow::Exit { guarded: false }]);
        assert_eq!(cfg.reconvergence()[0], 2);
    }

    #[test]
    fn branches_around_an_exit_and_endless_loops_reconverge_at_the_end() {
        // 0: @p bra 2; 1: exit; 2: x (falls off the end)
        let cfg = Cfg::new(&[branch(2), Flow::Exit { guarded: false }, Flow::Next]);
        assert_eq!(cfg.reconvergence()[0], 3);
        // 0: @p bra 2; 1: bra 1; 2: bra 2
        let cfg = Cfg::new(&[branch(2), jump(1), jump(2)]);
        assert_eq!(cfg.reconvergence()[0], 3);
        // A guarded exit needs no reconvergence but must not confuse the blocks around it.
        // 0: @p bra 3; 1: @q exit; 2: x; 3: exit
        let cfg = Cfg::new(&[branch(3), Flow::Exit { guarded: true }, Flow::Next, Flow::Exit { guarded: false }]);
        assert_eq!(cfg.reconvergence()[0], 4);
    }

    /// Post-dominance by its definition: `q` post-dominates `b` when removing `q` cuts `b` off from the exit.
    #[test]
    fn agrees_with_the_definition_on_random_graphs() {
        let mut state = 0x243f_6a88_85a3_08d3_u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..300 {
            let n = 2 + random(9) as u32;
            let flow: Vec<Flow> = (0..n)
                .map(|_| match random(6) {
                    0 => Flow::Exit { guarded: random(2) == 0 },
                    1 => jump(random(u64::from(n)) as u32),
                    2 | 3 => branch(random(u64::from(n)) as u32),
                    _ => Flow::Next,
                })
                .collect();
            let cfg = Cfg::new(&flow);
            let exit = cfg.blocks().len();
            let reaches = |from: usize, without: Option<usize>| {
                let mut seen = vec![false; exit + 1];
                let mut stack = vec![from];
                while let Some(b) = stack.pop() {
                    if Some(b) == without || std::mem::replace(&mut seen[b], true) {
                        continue;
                    }
                    if b < exit {
                        stack.extend(cfg.successors[b].iter().map(|&s| s as usize));
                    }
                }
                seen
            };
            let got = cfg.reconvergence();
            for (b, &got) in got.iter().enumerate() {
                if (0..exit).any(|x| reaches(b, None)[x] && !reaches(x, None)[exit]) {
                    continue; // an endless loop is in reach: reconvergence is by convention, not by the definition
                }
                let dominators: Vec<usize> = (0..exit).filter(|&q| q != b && !reaches(b, Some(q))[exit]).collect();
                // The immediate one is post-dominated by all the others.
                let nearest = dominators
                    .iter()
                    .copied()
                    .find(|&q| dominators.iter().all(|&r| r == q || !reaches(q, Some(r))[exit]));
                assert_eq!(got, nearest.map_or(n, |q| cfg.blocks()[q].start), "{flow:?} block {b}");
            }
        }
    }
}
