//! Signatures against other people's suites: Project Wycheproof for Ed25519, the DSSE specification for the encoding that is signed.

use std::path::PathBuf;

use record::PublicKey;
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
