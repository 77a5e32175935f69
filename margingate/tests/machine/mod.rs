//! A machine without a model: every token and column is a hash of its request's tokens, and a batch perturbs what it computes by its own
//! size. Two ranks, three layers, K and V with a scale each, and pages that several requests may share.

use std::collections::BTreeMap;
use std::convert::Infallible;

use margingate::gate::{Verified, mix};
use margingate::{Gate, Margin, Reference, Settings};

pub const LAYERS: u32 = 3;
pub const RANKS: u32 = 2;
/// Largest margin at which a batch makes a token flip.
pub const FLIPS_BELOW: f32 = 0.25;

/// One column: by rank, layer, K or V: elements and scale.
pub type Column = BTreeMap<(u32, u32, bool), (u64, u64)>;

/// A row that can be computed again.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub request: u64,
    pub position: usize,
}

/// A request's tokens, and where its columns lie.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    pub tokens: Vec<u32>,
    /// Released to the client.
    pub streamed: Vec<u32>,
    pub waiting: bool,
    /// Places of columns, by position.
    pub places: Vec<usize>,
}

#[derive(Default)]
pub struct Machine {
    pub requests: BTreeMap<u64, Sequence>,
    pub memory: Vec<Column>,
    pub step: u64,
    /// Shapes of the verification batches.
    pub shapes: Vec<(usize, u32)>,
    /// Share of rows, of 100, that the fast kernels get wrong whatever their margin.
    pub injected: u64,
    pub end: usize,
    saved: BTreeMap<(u64, usize), Column>,
    pub fed: u64,
}

fn digest(tokens: &[u32]) -> u64 {
    tokens.iter().fold(11, |h, t| mix(h, u64::from(*t), 1))
}

/// The reference's token and the margin, from the tokens alone.
pub fn truth(tokens: &[u32]) -> (u32, f32) {
    let h = digest(tokens);
    ((h % 1000) as u32, (h >> 32) as f32 / u32::MAX as f32)
}

pub fn column(tokens: &[u32], noise: u64) -> Column {
    let mut out = Column::new();
    for rank in 0..RANKS {
        for layer in 0..LAYERS {
            for v in [false, true] {
                let h = mix(digest(tokens), u64::from(rank * 100 + layer * 2) + u64::from(v), 2);
                out.insert((rank, layer, v), (mix(h, noise, 3), mix(h, noise, 4)));
            }
        }
    }
    out
}

impl Machine {
    pub fn new(prompts: &[u32], end: usize) -> Self {
        let mut machine = Self { end, ..Self::default() };
        for (id, prompt) in (0..).zip(prompts) {
            // The first token's column is there from the start; the second is the first row that steps compute.
            let tokens = vec![*prompt, *prompt + 1];
            machine.memory.push(column(&tokens[..1], 0));
            let places = vec![machine.memory.len() - 1];
            machine.requests.insert(id, Sequence { tokens, places, ..Sequence::default() });
        }
        machine
    }

    /// One batched step of the requests named that can take part.
    pub fn step(&mut self, gate: &mut Gate<Row>, order: &[u64]) {
        let able: Vec<u64> = order.iter().copied().filter(|r| self.able(*r)).collect();
        let batch = able.len() as u64;
        for (index, id) in able.into_iter().enumerate() {
            let end = self.end;
            let Some(s) = self.requests.get_mut(&id) else { continue };
            let position = s.tokens.len() - 1;
            let (right, margin) = truth(&s.tokens);
            // A batch of one computes as the reference does.
            let noisy = batch > 1;
            let injected = mix(5, digest(&s.tokens), 6) % 100 < self.injected;
            let flips =
                injected || (noisy && margin < FLIPS_BELOW && mix(digest(&s.tokens), batch, 7).is_multiple_of(4));
            let token = if flips { right + 1000 } else { right };
            self.memory.push(column(&s.tokens, if noisy { batch } else { 0 }));
            s.places.push(self.memory.len() - 1);
            self.fed += 1;
            let risk = Margin::new(if injected { 0.0 } else { margin });
            let decision = gate.judge(risk, false, self.step, index as u32);
            if decision.waits() {
                s.waiting = true;
                gate.hold(id, token, risk, decision, Row { request: id, position });
            } else {
                s.release(token, end);
            }
        }
        self.step += 1;
        gate.step_done();
    }

    fn able(&self, id: u64) -> bool {
        self.requests.get(&id).is_some_and(|s| !s.waiting && s.streamed.len() < self.end)
    }

    /// Verifies once, and releases what was decided.
    pub fn verify(&mut self, gate: &mut Gate<Row>) -> Vec<Verified<Row>> {
        let Ok(all) = gate.verify(self);
        let end = self.end;
        for v in &all {
            if let Some(s) = self.requests.get_mut(&v.held.request) {
                s.waiting = false;
                s.release(v.token, end);
            }
        }
        all
    }

    /// Serves to the end in batches of at most `most`, in an order drawn from `seed`.
    pub fn serve(&mut self, settings: Settings, most: usize, seed: u64) -> Gate<Row> {
        let mut gate = Gate::new(settings).unwrap();
        while self.requests.values().any(|s| s.streamed.len() < self.end) {
            let mut order: Vec<u64> = self.requests.keys().copied().filter(|r| self.able(*r)).collect();
            if gate.due(!order.is_empty()) {
                self.verify(&mut gate);
                continue;
            }
            order.sort_by_key(|r| mix(seed, *r, self.step as u32));
            order.truncate(1 + (mix(seed, self.step, 8) % most as u64) as usize);
            self.step(&mut gate, &order);
        }
        gate
    }

    pub fn outputs(&self) -> Vec<Vec<u32>> {
        self.requests.values().map(|s| s.streamed.clone()).collect()
    }
}

impl Sequence {
    fn release(&mut self, token: u32, end: usize) {
        self.streamed.push(token);
        if self.streamed.len() < end {
            self.tokens.push(token);
        }
    }
}

impl Reference for Machine {
    type Row = Row;
    type Error = Infallible;

    fn verify(&mut self, rows: &[&Row], pad_to: u32) -> Result<Vec<u32>, Infallible> {
        self.shapes.push((rows.len(), pad_to));
        let mut out = Vec::new();
        for row in rows {
            let s = &self.requests[&row.request];
            let tokens = s.tokens[..=row.position].to_vec();
            let place = s.places[row.position];
            self.saved.insert((row.request, row.position), self.memory[place].clone());
            self.memory[place] = column(&tokens, 0);
            out.push(truth(&tokens).0);
        }
        Ok(out)
    }

    fn write_back(&mut self, row: &Row, reference: bool) -> Result<(), Infallible> {
        let saved = self.saved.remove(&(row.request, row.position));
        if let Some(saved) = saved.filter(|_| !reference) {
            let place = self.requests[&row.request].places[row.position];
            self.memory[place] = saved;
        }
        Ok(())
    }
}
