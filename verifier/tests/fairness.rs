//! What is missing, damaged or not known neither hides a difference nor makes one, on a machine whose answers are known.

mod toy;

use record::inference::{Decode, Finish, Record};
use record::{F32Bits, Fact, U64Text, commit};
use toy::machine::Toy;
use toy::{Operator, Served};
use verifier::Verdict;
use verifier::audit::{Input, Options, audit};
use verifier::compare::Opened;
use verifier::replay::{
    Machine, Past, ReplayError, Replayer, Row, Run, Shape, Splits, WeightBit, WeightChange, WeightRow,
};
use verifier::result::{Cause, ClaimKind, ClaimResult, IdentityField, Outcome, RecordResult, SetAside};
use verifier::scheduling::Follower;

fn claim(r: &RecordResult, kind: ClaimKind) -> &ClaimResult {
    r.claims.iter().find(|c| c.claim == kind).unwrap_or_else(|| panic!("{kind} was not judged"))
}

fn verdict(r: &RecordResult, kind: ClaimKind) -> Verdict {
    claim(r, kind).verdict
}

/// A record of the toy operator whose leaves, roots and chain are made anew after an edit, as its operator would.
fn resealed(mut served: Served, edit: impl FnOnce(&mut Record)) -> Served {
    let before = served.record.clone();
    edit(&mut served.record);
    let mut chain = served.record.chain.before;
    for s in 0..served.record.steps.len() {
        let step = served.record.steps[s].clone();
        let leaves = step.schedule.each_row().map(|row| {
            let opened = served.opened.row(s, row.leaf).unwrap();
            let outputs = opened.outputs.clone();
            let replayed = Row { request: row.request, position: row.position, outputs };
            let components = replayed.components(before.evidence).unwrap();
            commit::leaf(&served.record.row_id(&row).unwrap(), &components)
        });
        let leaves = leaves.collect();
        let mut sealed = commit::seal(step.index, step.schedule.clone(), leaves, &chain).unwrap();
        sealed.time = step.time;
        chain = sealed.chain;
        served.record.steps[s] = sealed;
    }
    served.record.chain.after = chain;
    served
}

/// One flipped bit, which no evidence-free search finds: after it no replay gives the logits.
fn flipped() -> Served {
    let flip = WeightBit { tensor: "layers.0.down".into(), row: 2, column: 2, bit: 9 };
    let machine = Machine { profile: "sm_90".into(), weights: WeightChange::Bit(flip) };
    Operator { machine, ..Operator::default() }.serve()
}

#[test]
fn a_difference_without_evidence_is_a_mismatch_though_tokens_cannot_be_judged() {
    let r = flipped().audit_blind();
    assert_eq!(
        (verdict(&r, ClaimKind::Bits), verdict(&r, ClaimKind::Tokens)),
        (Verdict::Mismatch, Verdict::Inconclusive)
    );
    assert_eq!(r.verdict, Verdict::Mismatch, "{}", r.headline);
}

#[test]
fn a_sampler_that_is_not_known_does_not_hide_a_difference() {
    let mut served = flipped();
    served.record.requests[0].decode.sampler = "beam/3".into();
    let r = served.audit();
    assert_eq!((verdict(&r, ClaimKind::Tokens), r.verdict), (Verdict::Unverifiable, Verdict::Mismatch));
}

#[test]
fn a_difference_is_named_even_where_another_claim_decides() {
    let mut served = flipped();
    served.record.parallelism = Fact::Unspecified;
    let r = served.audit_blind();
    assert_eq!(r.verdict, Verdict::Inconclusive);
    assert!(r.headline.contains("/parallelism") && r.headline.contains("bits: "), "{}", r.headline);

    let mut served = flipped();
    served.record.requests[0].decode.temperature = F32Bits::new(1.0);
    let r = served.audit_blind();
    assert_eq!((r.verdict, verdict(&r, ClaimKind::Bits)), (Verdict::Error, Verdict::Mismatch));
    assert!(r.headline.contains("temperature") && r.headline.contains("bits: "), "{}", r.headline);
}

#[test]
fn refused_evidence_is_named_and_changes_no_verdict() {
    for (served, expected) in [(Operator::default().serve(), Verdict::Match), (flipped(), Verdict::Mismatch)] {
        let refused = SetAside { name: "ab.evidence".into(), reason: "tensor sha256:00 has been altered".into() };
        let r = audit(
            &Input {
                seq: 0,
                parts: std::slice::from_ref(&served.record),
                record: &served.record,
                opened: Opened::default(),
                set_aside: vec![refused.clone()],
                receipts: vec![],
                scheduling: Follower::default().record(Some(&served.record)),
                identity: vec![at_hand()],
                replayer: Some(&Toy::default()),
            },
            &Options::default(),
            &|_, _| {},
        )
        .unwrap();
        assert_eq!(r.verdict, expected, "{}", r.headline);
        assert_eq!(r.set_aside, [refused]);
        assert_eq!(verdict(&r, ClaimKind::Commitments), Verdict::Match);
        assert!(verifier::explain::words(&r).contains("ab.evidence"));
    }
}

fn at_hand() -> IdentityField {
    IdentityField { field: "model".into(), declared: "toy".into(), found: Some("toy".into()), agrees: true }
}

#[test]
fn a_token_that_the_model_does_not_have_is_an_error_of_the_record() {
    let served = resealed(Operator::default().serve(), |r| r.requests[0].prompt[1] = u32::MAX);
    let r = served.audit();
    assert_eq!((r.verdict, verdict(&r, ClaimKind::Schedule)), (Verdict::Error, Verdict::Error));
    assert!(
        r.headline.contains("token 4294967295 at position 1") && r.headline.contains("request a"),
        "{}",
        r.headline
    );
    assert_eq!(verdict(&r, ClaimKind::Bits), Verdict::Inconclusive);
}

#[test]
fn logged_log_probabilities_are_recomputed() {
    let honest = |seeded| {
        let mut served = Operator { seeded, ..Operator::default() }.serve();
        let toy = Toy::default();
        let mut values: Vec<Vec<F32Bits>> = vec![vec![]; 2];
        for (s, step) in served.record.steps.iter().enumerate() {
            for row in step.schedule.each_row().filter(|r| r.logits) {
                let Some(token) = served.record.row_id(&row).unwrap().chosen else { continue };
                let opened = served.opened.row(s, row.leaf).unwrap();
                let logits = Row { request: 0, position: 0, outputs: opened.outputs.clone() };
                let bits = toy.logprob(logits.logits().unwrap(), row.position, token).unwrap();
                values[row.request as usize].push(F32Bits(bits));
            }
        }
        for (request, values) in served.record.requests.iter_mut().zip(values) {
            request.logprobs = Some(values);
        }
        served
    };
    for seeded in [false, true] {
        let mut served = honest(seeded);
        for r in [served.audit(), served.audit_blind()] {
            assert_eq!(
                (r.verdict, verdict(&r, ClaimKind::Logprobs)),
                (Verdict::Match, Verdict::Match),
                "{}",
                r.headline
            );
            assert!(r.unverified.iter().all(|u| u.fact != "log-probabilities"));
        }
        served.record.requests[1].logprobs.as_mut().unwrap()[2].0 ^= 1;
        let r = served.audit();
        assert_eq!(r.verdict, Verdict::Mismatch);
        let detail = &claim(&r, ClaimKind::Logprobs).detail;
        assert!(detail.contains("1 of 14") && detail.contains("token 2 of request b"), "{detail}");
    }
    // A record that logs none does not claim anything about them.
    assert!(Operator::default().serve().audit().claims.iter().all(|c| c.claim != ClaimKind::Logprobs));
    // Where no replay gives the logits they stay unverified, and are listed.
    let mut served = flipped();
    served.record.requests[0].logprobs = Some(vec![F32Bits(0); 7]);
    let r = served.audit_blind();
    assert_eq!(verdict(&r, ClaimKind::Logprobs), Verdict::Inconclusive);
    assert!(
        r.unverified.iter().any(|u| u.fact == "log-probabilities" && u.declared == "7 values"),
        "{:?}",
        r.unverified
    );
}

#[test]
fn decode_parameters_that_do_not_fit_are_a_claim_of_their_own() {
    type Edit = fn(&mut record::inference::Decode);
    let cases: [(&str, Edit); 5] = [
        ("temperature", |d| d.temperature = F32Bits::new(1.0)),
        ("top_p", |d| d.top_p = F32Bits::new(0.5)),
        ("counter", |d| d.counter = "x".into()),
        ("temperature", |d| d.temperature = F32Bits::new(f32::NAN)),
        ("top_p", |d| d.top_p = F32Bits::new(0.0)),
    ];
    for (name, edit) in cases {
        let mut served = Operator::default().serve();
        edit(&mut served.record.requests[1].decode);
        let r = served.audit();
        assert_eq!((r.verdict, verdict(&r, ClaimKind::Decoding)), (Verdict::Error, Verdict::Error), "{name}");
        assert!(r.headline.contains("inconsistent decode parameters") && r.headline.contains(name), "{}", r.headline);
        // The forward passes do not depend on them: those bits are judged all the same.
        assert_eq!(verdict(&r, ClaimKind::Bits), Verdict::Match);
    }
}

#[test]
fn rules_of_seeds() {
    let with = |rule: &str| {
        let mut served = Operator { seeded: true, ..Operator::default() }.serve();
        served.record.requests[0].decode.seed_derivation = Fact::Known(rule.into());
        served.audit()
    };
    let r = with("dice/1");
    assert_eq!((r.verdict, verdict(&r, ClaimKind::Seeds)), (Verdict::Unverifiable, Verdict::Unverifiable));
    assert!(r.headline.contains("dice/1"), "{}", r.headline);
    let r = with("none");
    assert_eq!((r.verdict, verdict(&r, ClaimKind::Decoding)), (Verdict::Error, Verdict::Error));
    assert_eq!(verdict(&r, ClaimKind::Seeds), Verdict::Error);
    let mut greedy = Operator::default().serve();
    greedy.record.requests[0].decode.seed = Some(U64Text(3));
    assert_eq!(verdict(&greedy.audit(), ClaimKind::Decoding), Verdict::Error);
}

#[test]
fn a_request_that_goes_on_must_go_on_somewhere() {
    let mut served = Operator::default().serve();
    served.record.requests[1].finish = Finish::Continues;
    let r = served.audit();
    assert_eq!((r.verdict, verdict(&r, ClaimKind::Outputs)), (Verdict::Inconclusive, Verdict::Inconclusive));
    assert!(r.headline.contains("incomplete: request b"), "{}", r.headline);
    // It does not shield a difference.
    let mut cheat = flipped();
    cheat.record.requests[1].finish = Finish::Continues;
    assert_eq!(cheat.audit().verdict, Verdict::Mismatch);
}

#[test]
fn what_no_replay_can_show_is_listed() {
    let mut served = Operator::default().serve();
    served.record.stack.device.kind = record::inference::DeviceKind::Cuda;
    served.record.stack.device.gpu_model = Fact::Known(Some("NVIDIA H100 80GB HBM3".into()));
    served.record.stack.device.driver = Fact::Known(Some("570.1".into()));
    served.record.stack.engine.commit = Fact::Known(Some("c".repeat(5000)));
    let r = served.audit();
    assert_eq!(r.verdict, Verdict::Match, "{}", r.headline);
    let listed = |fact: &str| r.unverified.iter().find(|u| u.fact == fact).unwrap_or_else(|| panic!("{fact}"));
    assert_eq!(listed("device kind").declared, "cuda");
    assert_eq!(listed("GPU model").declared, "NVIDIA H100 80GB HBM3");
    assert_eq!(listed("driver").declared, "570.1");
    assert_eq!(listed("engine version").declared, "1");
    assert!(
        listed("engine commit").declared.ends_with("... (5000 bytes)") && listed("engine commit").declared.len() < 150
    );
    let words = verifier::explain::words(&r);
    assert!(words.contains("Not verified") && words.contains("570.1"), "{words}");

    // An emulated device has no GPU model: such a record contradicts itself.
    let mut emulated = Operator::default().serve();
    emulated.record.stack.device.gpu_model = Fact::Known(Some("H100".into()));
    let r = emulated.audit();
    assert_eq!((r.verdict, verdict(&r, ClaimKind::Identity)), (Verdict::Error, Verdict::Error));
}

#[test]
fn the_headline_says_when_the_generation_is_not_pinned_down() {
    // sm_80 and sm_86 are one class of the toy machine.
    let operator = Operator { machine: Machine::declared("sm_80"), claims_profile: "sm_80", ..Operator::default() };
    let r = operator.serve().audit();
    assert_eq!(r.verdict, Verdict::Match);
    assert!(r.headline.contains("not pinned down, sm_86"), "{}", r.headline);
}

/// A toy whose replays on other machines than the claimed one fail, as a device can; or all of them.
struct Failing {
    toy: Toy,
    works: &'static str,
}

impl Replayer for Failing {
    fn start(&self, machine: &Machine) -> Result<Box<dyn Run + '_>, ReplayError> {
        if machine.profile != self.works || machine.weights != WeightChange::None {
            return Err(ReplayError::Failed { reason: "the device is gone".into() });
        }
        self.toy.start(machine)
    }
    fn policy(&self, shape: &Shape) -> Result<Splits, ReplayError> {
        self.toy.policy(shape)
    }
    fn splittable(&self) -> Vec<String> {
        self.toy.splittable()
    }
    fn profiles(&self) -> Vec<String> {
        self.toy.profiles()
    }
    fn schemes(&self) -> Vec<String> {
        self.toy.schemes()
    }
    fn vocabulary(&self) -> u32 {
        self.toy.vocabulary()
    }
    fn positions(&self) -> u32 {
        self.toy.positions()
    }
    fn choose(&self, d: &Decode, past: Past<'_>, logits: &[u32], position: u32) -> Result<u32, ReplayError> {
        self.toy.choose(d, past, logits, position)
    }
    fn rank(&self, d: &Decode, past: Past<'_>, l: &[u32], p: u32, token: u32) -> Result<Option<u32>, ReplayError> {
        self.toy.rank(d, past, l, p, token)
    }
    fn logprob(&self, logits: &[u32], position: u32, token: u32) -> Result<u32, ReplayError> {
        self.toy.logprob(logits, position, token)
    }
    fn text_has(&self, ids: &[u32], strings: &[String]) -> Result<bool, ReplayError> {
        self.toy.text_has(ids, strings)
    }
    fn weights(&self, point: verifier::ops::Point, index: u32, token: u32) -> Option<WeightRow> {
        self.toy.weights(point, index, token)
    }
    fn dot(
        &self,
        profile: &str,
        at: (verifier::ops::Op, u32),
        x: &[u16],
        w: &[u16],
        s: u32,
    ) -> Result<u32, ReplayError> {
        self.toy.dot(profile, at, x, w, s)
    }
    fn embeddings(&self, bits: &[u16]) -> Vec<u32> {
        self.toy.embeddings(bits)
    }
}

fn on(replayer: &dyn Replayer, served: &Served) -> RecordResult {
    let input = Input {
        seq: 0,
        parts: std::slice::from_ref(&served.record),
        record: &served.record,
        opened: Opened::default(),
        set_aside: vec![],
        receipts: vec![],
        scheduling: Follower::default().record(Some(&served.record)),
        identity: vec![at_hand()],
        replayer: Some(replayer),
    };
    audit(&input, &Options::default(), &|_, _| {}).unwrap()
}

#[test]
fn a_search_that_fails_takes_nothing_away() {
    let works = Failing { toy: Toy::default(), works: "sm_90" };
    let r = on(&works, &Operator::default().serve());
    assert_eq!((r.verdict, verdict(&r, ClaimKind::Hardware)), (Verdict::Match, Verdict::Inconclusive));
    let r = on(&works, &flipped());
    assert_eq!(r.verdict, Verdict::Mismatch);
    assert!(matches!(r.causes.first(), Some(Cause::Unexplained { .. })));
    assert!(r.tried.iter().any(|t| t.outcome == Outcome::NotTried && t.detail.contains("the device is gone")));

    let fails = Failing { toy: Toy::default(), works: "none" };
    let r = on(&fails, &Operator::default().serve());
    assert_eq!(r.verdict, Verdict::Unverifiable);
    assert!(r.headline.contains("the device is gone"), "{}", r.headline);
}
