//! Asynchronous copies that have been issued and not landed.
//!
//! Groups belong to threads: each lane counts the groups it has closed, and a copy belongs to the group that was open in
//! its lane when it was issued.

use super::shadow::Mark;

/// One lane's copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    /// Who issued it, and where.
    pub issued: Mark,
    pub to: u32,
    pub from: u64,
    pub bytes: u32,
    /// Bytes read; the rest are zero.
    pub valid: u32,
    /// The lane's group.
    group: u32,
}

/// The copies of one block.
#[derive(Debug)]
pub(super) struct Copies {
    all: Vec<Copy>,
    /// Numbers of those in flight, by warp.
    in_flight: Vec<Vec<u32>>,
    /// Groups closed, by warp and lane.
    closed: Vec<[u32; 32]>,
}

impl Copies {
    pub fn new(warps: u32) -> Self {
        Copies { all: Vec::new(), in_flight: vec![Vec::new(); warps as usize], closed: vec![[0; 32]; warps as usize] }
    }

    /// A block starts.
    pub fn clear(&mut self) {
        self.all.clear();
        self.in_flight.iter_mut().for_each(Vec::clear);
        self.closed.fill([0; 32]);
    }

    pub fn get(&self, number: u32) -> Copy {
        self.all[number as usize]
    }

    /// Notes a copy and gives its number.
    pub fn issue(&mut self, issued: Mark, to: u32, from: u64, bytes: u32, valid: u32) -> u32 {
        let number = self.all.len() as u32;
        let group = self.closed[issued.warp as usize][issued.lane as usize];
        self.all.push(Copy { issued, to, from, bytes, valid, group });
        self.in_flight[issued.warp as usize].push(number);
        number
    }

    pub fn commit(&mut self, warp: u32, mask: u32) {
        for (lane, closed) in self.closed[warp as usize].iter_mut().enumerate() {
            *closed += mask >> lane & 1;
        }
    }

    /// The copies that must have landed once the lanes in `mask` have waited for all groups but the latest `pending`
    /// (`None`: for every copy). They are no longer in flight.
    pub fn wait(&mut self, warp: u32, mask: u32, pending: Option<u32>) -> Vec<Copy> {
        let Copies { all, in_flight, closed } = self;
        let closed = &closed[warp as usize];
        let mut landed = Vec::new();
        in_flight[warp as usize].retain(|&number| {
            let copy = &all[number as usize];
            let lane = copy.issued.lane as usize;
            let waited = mask >> lane & 1 == 1
                && match pending {
                    None => true,
                    Some(pending) => u64::from(copy.group) + u64::from(pending) < u64::from(closed[lane]),
                };
            if waited {
                landed.push(*copy);
            }
            !waited
        });
        landed
    }
}
