//! Calibrations are signed, and read only as signed.

use record::calibration::{Bin, CALIBRATION_TYPE, Calibration, Load, Source};
use record::envelope::{self, Statement, predicate};
use record::{Digest, Error, F32Bits, PrivateKey, U64Text};

fn calibration() -> Calibration {
    Calibration {
        kind: CALIBRATION_TYPE.into(),
        model: Digest::of_file(b"model"),
        stack: Digest::of_file(b"stack"),
        model_name: "m".into(),
        signal: "margin/1".into(),
        tau: F32Bits::new(0.5),
        tau_flip: F32Bits::new(0.4),
        tau_conf: F32Bits::new(0.3),
        alpha_ppm: 1000,
        safety: F32Bits::new(0.25),
        steps: 1000,
        flips: 3,
        triggers: 100,
        miss_bound: F32Bits::new(0.7),
        load: Load {
            sources: vec![Source { name: "p".into(), sha256: Digest::of_file(b"p"), sequences: 4 }],
            prompt_tokens: 64,
            tokens: 8,
            schedules: 2,
            group: 4,
            seed: U64Text(u64::MAX),
        },
        margins: vec![Bin { exponent: None, count: 1 }, Bin { exponent: Some(-3), count: 9 }],
        deltas: vec![],
        flipped: vec![],
        traces: Digest::of_file(b"t"),
        limits: vec!["tokens only".into()],
    }
}

#[test]
fn only_a_trusted_signature_over_exactly_these_bytes_is_read() {
    let (key, other) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
    let signed = calibration().sign(&key).unwrap();
    assert_eq!(Calibration::open(&signed, &[&key.public()]).unwrap(), calibration());
    assert!(matches!(Calibration::open(&signed, &[&other.public()]), Err(Error::Envelope(_))));
    let mut altered = signed.clone();
    let at = altered.len() / 3;
    altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
    assert!(Calibration::open(&altered, &[&key.public()]).is_err());
    // Another version, and another kind of statement.
    let newer = Calibration { kind: "calibration/v2".into(), ..calibration() }.sign(&key).unwrap();
    assert!(matches!(Calibration::open(&newer, &[&key.public()]), Err(Error::UnknownType { .. })));
    let result = envelope::sign(&Statement::new(predicate::AUDIT_RESULT, vec![], calibration()), &key).unwrap();
    assert!(matches!(Calibration::open(&result, &[&key.public()]), Err(Error::UnknownType { .. })));
}
