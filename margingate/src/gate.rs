//! The gate: which rows wait for the reference, when they are verified, what is written back, and when the threshold rises.
//!
//! A row whose risk is low is *held*: its token is neither released nor fed back, and its request sits out until the reference has
//! decided. Held rows of several steps are verified together, in batches of one constant shape, while other requests go on. The rule is deterministic: an
//! auditor who knows the margins makes the same decisions.

use std::collections::{BTreeMap, VecDeque};

use crate::margin::Margin;
use crate::threshold::{self, Refusal};

/// Which columns the reference's replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// Those of a row whose token was wrong (the published policy).
    Mismatch,
    /// Those of every verified row; they were computed anyway.
    Trigger,
    /// All of the request's that are not the reference's yet, up to the verified row: they are computed again with it. So the reference
    /// decides over its own columns, as it would alone.
    CatchUp,
    /// Every row is verified and replaced: always-on verification. The threshold does not matter.
    All,
}

impl WriteBack {
    /// All of them.
    pub const ALL: [WriteBack; 4] = [WriteBack::Mismatch, WriteBack::Trigger, WriteBack::CatchUp, WriteBack::All];

    /// The stored word.
    pub const fn name(self) -> &'static str {
        match self {
            WriteBack::Mismatch => "mismatch",
            WriteBack::Trigger => "trigger",
            WriteBack::CatchUp => "catch-up",
            WriteBack::All => "all",
        }
    }

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Does a verification read the reference's columns only, so that its token is the one that the request alone would get?
    pub const fn decides_alone(self) -> bool {
        matches!(self, WriteBack::CatchUp | WriteBack::All)
    }

    /// Are the columns of a verified row replaced?
    pub const fn writes(self, mismatch: bool) -> bool {
        mismatch || !matches!(self, WriteBack::Mismatch)
    }
}

/// What a gate's decisions depend on besides the margins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Threshold to begin with.
    pub tau: f32,
    /// What is replaced.
    pub write_back: WriteBack,
    /// Requests of a verification batch, at most, and what its rows are a multiple of: fewer are padded. At least 1.
    pub verify_rows: u32,
    /// Steps that a held row waits for others to fill its batch; 0 verifies after every step.
    pub patience: u32,
    /// One of this many high-margin rows is verified all the same, to measure misses; 0 for none.
    pub probe_every: u32,
    /// Decides which ones.
    pub probe_seed: u64,
    /// Share by which the threshold exceeds the margin of a miss that was found.
    pub safety: f32,
}

impl Settings {
    /// A threshold with the policy whose verified tokens are those of the request alone, batches of 8, a patience of 8 steps, no probes.
    pub fn new(tau: f32) -> Self {
        Self {
            tau,
            write_back: WriteBack::CatchUp,
            verify_rows: 8,
            patience: 8,
            probe_every: 0,
            probe_seed: 0,
            safety: 0.25,
        }
    }

    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// [`Refusal::NotAThreshold`] for a threshold or a safety that is no number from 0 on, or batches without rows.
    pub fn check(&self) -> Result<(), Refusal> {
        threshold::check(self.tau)?;
        threshold::check(self.safety)?;
        if self.verify_rows == 0 {
            return Err(Refusal::NotAThreshold { tau: "(batches of 0 rows)".into() });
        }
        Ok(())
    }
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Its margin is high: the token is released.
    Commit,
    /// The step ran the reference's kernels: there is nothing to verify.
    Reference,
    /// Its margin is low: the reference decides.
    Hold,
    /// Its margin is high, and it is verified to measure misses.
    Probe,
}

impl Decision {
    /// The token waits.
    pub const fn waits(self) -> bool {
        matches!(self, Decision::Hold | Decision::Probe)
    }
}

/// A row that waits for the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Held<R> {
    /// Whose it is.
    pub request: u64,
    /// The token that the fast step would have released.
    pub token: u32,
    /// Its risk.
    pub risk: Margin,
    /// Why it waits.
    pub why: Decision,
    /// Steps that it has waited.
    pub age: u32,
    /// What the engine needs to compute it again.
    pub row: R,
}

/// What the reference said of a held row.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified<R> {
    /// The row.
    pub held: Held<R>,
    /// The reference's token: the one to release.
    pub token: u32,
    /// The columns are now the reference's.
    pub repaired: bool,
    /// The fast step had chosen another token.
    pub mismatch: bool,
}

/// What the gate needs of an engine: the reference configuration.
pub trait Reference {
    /// What identifies a row to the engine.
    type Row;
    /// How it fails.
    type Error;

    /// Rows that computing this one again takes: with columns before it that are caught up, more than one.
    fn rows(&self, row: &Self::Row) -> u32 {
        let _ = row;
        1
    }

    /// Rows of one batch, at most.
    fn most_rows(&self) -> u32 {
        u32::MAX
    }

    /// Computes rows again in the reference configuration, each over its own K/V columns, in a batch of `pad_to` rows. Returns the token of each.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn verify(&mut self, rows: &[&Self::Row], pad_to: u32) -> Result<Vec<u32>, Self::Error>;

    /// Leaves the reference's columns in place of the row's (K and V, every layer, every rank, scales too), or the batch's where they were.
    /// Called once for every verified row.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn write_back(&mut self, row: &Self::Row, reference: bool) -> Result<(), Self::Error>;
}

/// The state of a gate; `R` is what the engine needs to compute a row again.
#[derive(Clone, Debug)]
pub struct Gate<R> {
    settings: Settings,
    tau: f32,
    held: VecDeque<Held<R>>,
    /// By request: the lowest risk at which a token was committed.
    committed: BTreeMap<u64, Margin>,
    meter: Meter,
}

/// What the gate has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Rows judged by their margin.
    pub judged: u64,
    /// Rows held because their margin was low.
    pub triggered: u64,
    /// Of those, rows whose token was wrong.
    pub mismatches: u64,
    /// High-margin rows verified.
    pub probes: u64,
    /// Of those, rows whose token was wrong: misses, found out by chance.
    pub misses: u64,
    /// Verification batches.
    pub batches: u64,
    /// Rows computed again in those batches.
    pub rows: u64,
    /// Rows of those batches that were padding.
    pub padding: u64,
}

impl<R> Gate<R> {
    /// A gate with nothing held.
    ///
    /// # Errors
    /// As [`Settings::check`].
    pub fn new(settings: Settings) -> Result<Self, Refusal> {
        settings.check()?;
        let (held, committed) = (VecDeque::new(), BTreeMap::new());
        Ok(Self { settings, tau: settings.tau, held, committed, meter: Meter::default() })
    }

    /// The settings it began with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The threshold now: that of the settings until a miss is found.
    pub fn tau(&self) -> f32 {
        self.tau
    }

    /// Counts so far.
    pub fn meter(&self) -> Meter {
        self.meter
    }

    /// Rows that wait, in order of arrival.
    pub fn held(&self) -> impl Iterator<Item = &Held<R>> {
        self.held.iter()
    }

    /// Judges a row by its risk. `step` and `row` count the engine's steps and the rows in one; `reference` says that the step ran the
    /// reference's kernels.
    pub fn judge(&mut self, risk: Margin, reference: bool, step: u64, row: u32) -> Decision {
        if reference {
            return Decision::Reference;
        }
        self.meter.judged += 1;
        if self.settings.write_back == WriteBack::All || threshold::is_low(risk, self.tau) {
            self.meter.triggered += 1;
            return Decision::Hold;
        }
        let every = u64::from(self.settings.probe_every);
        if every > 0 && mix(self.settings.probe_seed, step, row).is_multiple_of(every) {
            self.meter.probes += 1;
            return Decision::Probe;
        }
        Decision::Commit
    }

    /// A request's token was committed at this risk.
    pub fn commit(&mut self, request: u64, risk: Margin) {
        let lowest = self.committed.entry(request).or_insert(risk);
        *lowest = lowest.min(risk);
    }

    /// Requests of which a token was committed that would be held now, since a probe found a miss and the threshold rose: it may be a miss as well.
    pub fn unverified(&self) -> impl Iterator<Item = u64> + '_ {
        self.committed.iter().filter(|(_, risk)| threshold::is_low(**risk, self.tau)).map(|(request, _)| *request)
    }

    /// A request has ended: nothing more is said of it.
    pub fn ended(&mut self, request: u64) {
        self.committed.remove(&request);
    }

    /// Lets a row wait whose decision says so.
    pub fn hold(&mut self, request: u64, token: u32, risk: Margin, why: Decision, row: R) {
        self.held.push_back(Held { request, token, risk, why, age: 0, row });
    }

    /// One step of other requests has gone by.
    pub fn step_done(&mut self) {
        for held in &mut self.held {
            held.age += 1;
        }
    }

    /// Must a batch be verified before the next step? It is full, someone has waited long enough, or `others` is false: no other request can
    /// take part in a step, or there might be no room for one without taking it from a held request.
    pub fn due(&self, others: bool) -> bool {
        let Some(oldest) = self.held.front() else { return false };
        !others || self.held.len() >= self.settings.verify_rows as usize || oldest.age >= self.settings.patience
    }

    /// Verifies the rows that have waited longest, as many as fit one batch.
    ///
    /// # Errors
    /// The engine's; the rows of the batch are then no longer held.
    pub fn verify<E: Reference<Row = R>>(&mut self, engine: &mut E) -> Result<Vec<Verified<R>>, E::Error> {
        let count = self.fitting(engine.most_rows(), |h| engine.rows(&h.row));
        let batch = self.next_batch(count);
        let rows: Vec<&R> = batch.iter().map(|h| &h.row).collect();
        let pad_to = self.computes_again(rows.iter().map(|r| engine.rows(r)).sum());
        let tokens = engine.verify(&rows, pad_to)?;
        let mut out = Vec::with_capacity(batch.len());
        for (held, token) in batch.into_iter().zip(tokens) {
            let verified = self.settle(held, token);
            engine.write_back(&verified.held.row, verified.repaired)?;
            out.push(verified);
        }
        Ok(out)
    }

    /// How many of the rows that have waited longest make the next batch: as many as there may be, while what they take to compute fits `most` rows;
    /// at least one.
    pub fn fitting(&self, most: u32, rows: impl Fn(&Held<R>) -> u32) -> usize {
        let mut sum = 0u32;
        let fits = self.held.iter().take(self.settings.verify_rows as usize).take_while(|h| {
            sum = sum.saturating_add(rows(h));
            sum <= most
        });
        fits.count().max(1).min(self.held.len())
    }

    /// The first `count` rows that wait, which are no longer held.
    pub fn next_batch(&mut self, count: usize) -> Vec<Held<R>> {
        self.held.drain(..count.min(self.held.len())).collect()
    }

    /// Counts a batch of this many rows, and gives the number that it is padded to.
    pub fn computes_again(&mut self, rows: u32) -> u32 {
        let padded = rows.next_multiple_of(self.settings.verify_rows);
        self.meter.batches += 1;
        self.meter.rows += u64::from(rows);
        self.meter.padding += u64::from(padded - rows);
        padded
    }

    /// What follows from the reference's token: repair, and a higher threshold where a high-margin row was wrong.
    ///
    /// **Bits.** The new threshold is `risk * (1 + safety)` in f32.
    pub fn settle(&mut self, held: Held<R>, token: u32) -> Verified<R> {
        let mismatch = token != held.token;
        match held.why {
            Decision::Probe if mismatch => {
                self.meter.misses += 1;
                self.tau = self.tau.max(held.risk.value() * (1.0 + self.settings.safety));
            }
            _ => self.meter.mismatches += u64::from(mismatch),
        }
        Verified { token, mismatch, repaired: self.settings.write_back.writes(mismatch), held }
    }

    /// Forgets what waits for a request that is gone or will be computed again.
    pub fn forget(&mut self, request: u64) {
        self.held.retain(|h| h.request != request);
    }
}

/// A well-mixed number of a seed, a step and a row: SplitMix64's finaliser over each in turn.
pub fn mix(seed: u64, step: u64, row: u32) -> u64 {
    let scramble = |z: u64| {
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let golden = 0x9e37_79b9_7f4a_7c15_u64;
    [step, u64::from(row)]
        .into_iter()
        .fold(scramble(seed.wrapping_add(golden)), |z, part| scramble((z ^ part).wrapping_add(golden)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_as_many_rows_as_fit_and_are_padded_to_a_multiple() {
        let mut gate = Gate::new(Settings { verify_rows: 4, ..Settings::new(1.0) }).unwrap();
        for (request, rows) in (0..).zip([5u32, 3, 9, 1, 1, 1]) {
            gate.hold(request, 0, Margin::new(0.0), Decision::Hold, rows);
        }
        let rows = |h: &Held<u32>| h.row;
        assert_eq!(
            [100, 18, 16, 8, 4, 0].map(|most| gate.fitting(most, rows)),
            [4, 4, 2, 2, 1, 1],
            "at least one, at most four"
        );
        assert_eq!(gate.next_batch(2).iter().map(|h| h.request).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((gate.computes_again(8), gate.computes_again(9)), (8, 12));
        assert_eq!((gate.meter().batches, gate.meter().rows, gate.meter().padding), (2, 17, 3));
        assert_eq!(gate.next_batch(9).len(), 4, "no more than wait");
        assert_eq!(gate.fitting(5, rows), 0);
    }
    /// A miss raises the threshold, and marks the requests whose tokens would not have been committed under it.
    #[test]
    fn requests_below_a_raised_threshold_are_marked() {
        let settings = Settings { probe_every: 1, safety: 0.5, ..Settings::new(0.1) };
        let mut gate = Gate::new(settings).unwrap();
        for (request, risk) in [(1, 0.4), (2, 0.9), (3, 0.2), (2, 0.7), (4, 0.3)] {
            gate.commit(request, Margin::new(risk));
        }
        gate.ended(4);
        assert_eq!(gate.unverified().count(), 0);
        assert_eq!(gate.judge(Margin::new(0.5), false, 0, 0), Decision::Probe);
        gate.hold(9, 7, Margin::new(0.5), Decision::Probe, ());
        let probe = gate.next_batch(1).remove(0);
        gate.settle(probe, 8);
        assert_eq!((gate.tau(), gate.meter().misses), (0.75, 1));
        assert_eq!(gate.unverified().collect::<Vec<_>>(), [1, 2, 3]);
    }
}
