//! What a repair leaves in the cache, byte for byte.

use std::sync::Arc;

use margingate::{Margin, Settings, WriteBack};

use super::{Judged, Setup};
use crate::batch::{Operator, OperatorError, Request, StepLog};
use crate::device::EmulatedDevice;
use crate::kernels::PAGE;
use crate::kv::Slot;
use crate::runtime::{Engine, Limits};
use crate::scheduler::{self, Kind, RequestKey};
use crate::session::Session;
use crate::step::{Group, Logits, Observe, StepPlan};
use crate::{Dispatch, Mode, Model};

const LIMITS: Limits = Limits { slots: 4, pages: 40, max_rows: 64 };

fn engine(mode: Mode, ranks: u32) -> Engine {
    let model: Arc<Model> = Arc::new(crate::model::embedded().unwrap());
    Engine::parallel(model, Box::new(EmulatedDevice::new("sm_90").unwrap()), mode, LIMITS, ranks).unwrap()
}

/// Says that every row is at risk; those at odd positions chose a wrong token.
#[derive(Default)]
struct Odd {
    /// Positions verified last, by request, and whether they were repaired.
    verified: Vec<(RequestKey, u32, u32, bool)>,
}

impl Operator for Odd {
    fn judge(&mut self, _: RequestKey, position: u32, judged: Judged) -> Judged {
        Judged { token: judged.token ^ (position & 1), risk: Margin::new(0.0) }
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        let decided = step.turns.iter().zip(step.gate).filter(|(t, _)| t.kind == Kind::Verify);
        self.verified = decided
            .filter_map(|(t, gate)| match gate {
                Some(record::inference::RowGate::Verified { repaired, .. }) => {
                    Some((t.request, t.start, t.start + t.tokens.len() as u32, *repaired))
                }
                _ => None,
            })
            .collect();
        Ok(())
    }
}

/// Columns of a position: of every layer and rank, K and V.
fn column(pages: &[u8], per_page: usize, position: u32) -> Vec<Vec<u8>> {
    let inside = (position % PAGE) as usize;
    // `[kv_heads][PAGE][head_pad]` in a page: 16-bit elements of every head.
    let config = crate::model::embedded().unwrap().config;
    let head = 2 * crate::kernels::pad(config.head_dim) as usize;
    let one = |page: &[u8]| {
        page.chunks_exact(PAGE as usize * head).flat_map(|h| h[inside * head..][..head].to_vec()).collect()
    };
    pages.chunks_exact(per_page).map(one).collect()
}

/// After every verification: repaired columns are those of the request alone, in every layer, K and V, on every rank; columns that were kept, and all others, are as
/// they were before it.
#[test]
fn repairs_leave_the_references_bytes_and_touch_nothing_else() {
    for ranks in [1, 2] {
        let policies: &[WriteBack] = if ranks == 1 { &[WriteBack::Mismatch] } else { &WriteBack::ALL };
        for &write_back in policies {
            let prompts: [Vec<u32>; 3] = [vec![5, 9, 300], vec![7, 1, 2, 500, 44], vec![3, 3]];
            let mut gated = engine(Mode::Gated, ranks)
                .with_gate(Setup::chosen(Settings { write_back, verify_rows: 4, patience: 2, ..Settings::new(0.1) }))
                .unwrap();
            let mut session = Session::new(&mut gated, scheduler::Settings::plain(64), Observe::TOKENS).unwrap();
            let mut outputs = vec![Vec::new(); 3];
            for prompt in &prompts {
                session.submit(Request::new(prompt.clone(), 15)).unwrap();
            }
            let mut operator = Odd::default();
            let mut lone = Lone::new(ranks);
            let pages: Vec<u32> = (0..LIMITS.pages).collect();
            let mut before = session.engine_mut().save_pages(&pages).unwrap();
            let (mut repaired, mut kept) = (0, 0);
            while let Some(progress) = session.step(&mut operator).unwrap() {
                let after = session.engine_mut().save_pages(&pages).unwrap();
                let whole = after.len() / LIMITS.pages as usize;
                let caches = session.engine_mut().caches().count();
                let per_page = whole / caches;
                for (request, start, end, is_repaired) in std::mem::take(&mut operator.verified) {
                    let tokens = [&prompts[request as usize][..], &outputs[request as usize]].concat();
                    // Pages are handed out in order of admission: the slot is the request's number as long as nobody has ended.
                    let Some(slot) = session.slot_of(request) else { continue };
                    let held = session.engine_mut().kv().pages(slot).unwrap().to_vec();
                    let of = |bytes: &[u8], position: u32| {
                        let page = held[(position / PAGE) as usize] as usize;
                        let own: Vec<u8> = (0..caches)
                            .flat_map(|c| bytes[(c * LIMITS.pages as usize + page) * per_page..][..per_page].to_vec())
                            .collect();
                        column(&own, per_page, position)
                    };
                    let lone = lone.pages(request, &tokens[..end as usize]);
                    for position in start..end {
                        let own = of(&after, position);
                        if is_repaired && (write_back.decides_alone() || position + 1 == end) {
                            repaired += 1;
                            if write_back.decides_alone() {
                                assert_eq!(
                                    own,
                                    column(&lone[(position / PAGE) as usize], per_page, position),
                                    "{write_back:?} {position}"
                                );
                            }
                        } else {
                            kept += 1;
                            assert_eq!(own, of(&before, position), "{write_back:?} {position}");
                        }
                    }
                    for position in 0..start {
                        assert_eq!(
                            of(&after, position),
                            of(&before, position),
                            "{write_back:?}: {position} was not verified"
                        );
                    }
                }
                for (request, token) in progress.chosen {
                    outputs[request as usize].push(token);
                }
                before = after;
            }
            assert!(
                repaired > 10 && (kept > 10) == (write_back == WriteBack::Mismatch),
                "{write_back:?} {repaired} {kept}"
            );
        }
    }
}

/// The reference for requests alone, extended as their tokens come.
struct Lone {
    engine: Engine,
    slots: Vec<Slot>,
}

impl Lone {
    fn new(ranks: u32) -> Self {
        let mut engine = engine(Mode::Invariant, ranks);
        let slots = (0..3).map(|_| engine.open().unwrap()).collect();
        Self { engine, slots }
    }

    /// Pages of a request's first tokens, each with all layers, ranks, K and V.
    fn pages(&mut self, request: RequestKey, tokens: &[u32]) -> Vec<Vec<u8>> {
        let slot = self.slots[request as usize];
        let start = self.engine.positions(slot).unwrap();
        let group = Group { slot, start, tokens: tokens[start as usize..].to_vec(), logits: Logits::Last };
        let plan = StepPlan { groups: vec![group], dispatch: Dispatch::UNSPLIT, observe: Observe::TOKENS };
        self.engine.step(&plan).unwrap();
        (0..(tokens.len() as u32).div_ceil(PAGE)).map(|p| self.engine.save(slot, p..p + 1).unwrap()).collect()
    }
}
