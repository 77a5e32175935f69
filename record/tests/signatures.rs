//! Signatures against other people's suites: Project Wycheproof for Ed25519, the DSSE specification for the encoding that is signed.

use std::path::PathBuf;

use record::{PrivateKey, PublicKey};
use serde_json::Value;

#[test]
fn wycheproof_ed25519() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/wycheproof/ed25519_test.json");
    let suite: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    for group in suite["testGroups"].as_array().unwrap() {
        let key = hex::decode(group["publicKey"]["pk"].as_str().unwrap()).unwrap();
        let key = PublicKey::from_bytes(&key.try_into().unwrap());
        for test in group["tests"].as_array().unwrap() {
            let field = |name: &str| hex::decode(test[name].as_str().unwrap()).unwrap();
            let accepted = key.as_ref().is_ok_and(|key| key.verifies(&field("msg"), &field("sig")));
            let expected = test["result"] == "valid";
            assert_eq!(accepted, expected, "case {}: {}", test["tcId"], test["comment"]);
            *(if expected { &mut valid } else { &mut invalid }) += 1;
        }
    }
    assert_eq!(valid + invalid, suite["numberOfTests"].as_u64().unwrap());
    assert!(valid > 50 && invalid > 50, "{valid} valid, {invalid} invalid");
}

/// The example of the DSSE specification, protocol.md.
#[test]
fn dsse_pre_authentication_encoding() {
    let encoded = dsse::pae("http://example.com/HelloWorld", b"hello world");
    assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
}

/// Every encoding of the eight points of small order, the ones that are not canonical included.
const SMALL_ORDER: [&str; 14] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
];

fn point(digits: &str) -> [u8; 32] {
    hex::decode(digits).unwrap().try_into().unwrap()
}

#[test]
fn points_of_small_order_are_no_keys_and_sign_nothing() {
    let key = PrivateKey::from_seed(&[7; 32]);
    for digits in SMALL_ORDER {
        assert!(PublicKey::from_bytes(&point(digits)).is_err(), "{digits} as a key");
        // With R of small order and S = 0 a sloppy verifier accepts what a weak key "signed"; here the key is a good one.
        for s in [[0_u8; 32], key.sign(b"m")[32..].try_into().unwrap()] {
            let signature = [point(digits), s].concat();
            assert!(!key.public().verifies(b"m", &signature), "{digits} as R");
        }
    }
}

/// A coordinate of 2^255-19 or more is another spelling of a smaller one, of points that are not weak, too.
#[test]
fn keys_have_one_encoding() {
    let mut refused = 0;
    for low in 0xed..=0xff_u8 {
        for high in [0x7f, 0xff] {
            let mut bytes = [0xff_u8; 32];
            (bytes[0], bytes[31]) = (low, high);
            assert!(PublicKey::from_bytes(&bytes).is_err(), "{}", hex::encode(bytes));
            refused += usize::from(ed25519_dalek::VerifyingKey::from_bytes(&bytes).is_ok_and(|key| !key.is_weak()));
        }
    }
    assert!(refused > 10, "the library takes {refused} of them");
}

/// The scalar must be below the group order: every multiple of it that fits is tried.
#[test]
fn scalars_have_one_encoding() {
    let key = PrivateKey::from_seed(&[7; 32]);
    let order = point("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut signature = key.sign(b"m");
    assert!(key.public().verifies(b"m", &signature));
    for times in 1..=15 {
        let mut carry = 0_u16;
        for (s, l) in signature[32..].iter_mut().zip(order) {
            let sum = u16::from(*s) + u16::from(l) + carry;
            *s = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
        if carry > 0 {
            assert!(times > 14, "S + {times} L does not fit");
            break;
        }
        assert!(!key.public().verifies(b"m", &signature), "S + {times} L");
    }
}
