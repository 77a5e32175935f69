//! Model signatures made by the reference implementation (`model_signing` 1.1.1, `sign key`), and every way in which they are refused.

use std::path::PathBuf;

use record::Error;
use record::inference::FileDigest;
use record::model_signing::{Listed, ModelKey, ModelSignatureRefusal as Refusal, SignedModel};
use record::{Digest, PrivateKey};
use serde_json::{Value, json};

fn vector(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/model-signing").join(name)).unwrap()
}

fn reference_key() -> ModelKey {
    ModelKey::from_pem(&String::from_utf8(vector("pub.pem")).unwrap()).unwrap()
}

fn refusal(bytes: &[u8], key: &ModelKey) -> Refusal {
    match SignedModel::verify(bytes, key) {
        Err(Error::ModelSignature(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_signature_of_the_reference_implementation() {
    let model = SignedModel::verify(&vector("model.sig"), &reference_key()).unwrap();
    assert_eq!(model.name, "model");
    let names: Vec<&str> = model.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["config.json", "model.safetensors", "sub/t.txt"]);
    let file = |path: &str, bytes: &[u8]| FileDigest {
        path: path.to_owned(),
        size: bytes.len() as u64,
        sha256: Digest::of_file(bytes),
    };
    let read = [file("config.json", b"{\"a\":1}\n"), file("model.safetensors", b"weights")];
    assert_eq!(model.lists(&read), Listed::All);
    let other = [read[0].clone(), file("model.safetensors", b"weightz")];
    assert_eq!(model.lists(&other), Listed::Differs("model.safetensors".to_owned()));
    assert_eq!(
        model.lists(&[file("adapter.safetensors", b"weights")]),
        Listed::Unknown("adapter.safetensors".to_owned())
    );
}

/// Any byte of what is signed or of the signature: never accepted. (Bytes that no one signs, such as the key hint, say nothing.)
#[test]
fn no_flipped_bit_is_accepted_as_another_model() {
    let (bytes, key) = (vector("model.sig"), reference_key());
    let honest = SignedModel::verify(&bytes, &key).unwrap();
    for at in 0..bytes.len() {
        for bit in [0, 5] {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << bit;
            if let Ok(model) = SignedModel::verify(&altered, &key) {
                assert_eq!(model, honest, "byte {at}");
            }
        }
    }
}

fn ours() -> (PrivateKey, ModelKey) {
    let key = PrivateKey::from_seed(&[8; 32]);
    let public = ModelKey::Ed25519(key.public());
    (key, public)
}

fn statement() -> Value {
    let (a, b) = (Digest::of_file(b"a"), Digest::of_file(b"b"));
    let whole = Digest::of_file(&[a.as_bytes().as_slice(), b.as_bytes()].concat());
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "m", "digest": {"sha256": whole.to_hex()}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "resources": [
                {"name": "a", "algorithm": "sha256", "digest": a.to_hex()},
                {"name": "b", "algorithm": "sha256", "digest": b.to_hex()},
            ],
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": false, "ignore_paths": []},
        },
    })
}

fn signed(statement: &Value, edit: impl Fn(&mut Value)) -> Vec<u8> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let payload = serde_json::to_vec_pretty(statement).unwrap();
    let signature = ours().0.sign(&dsse::pae("application/vnd.in-toto+json", &payload));
    let mut bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "x"}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": STANDARD.encode(&payload),
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{"sig": STANDARD.encode(signature), "keyid": ""}],
        },
    });
    edit(&mut bundle);
    serde_json::to_vec(&bundle).unwrap()
}

#[test]
fn each_refusal_has_its_reason() {
    let key = ours().1;
    assert!(SignedModel::verify(&signed(&statement(), |_| ()), &key).is_ok());
    let bare: Value = serde_json::from_slice(&signed(&statement(), |_| ())).unwrap();
    assert!(SignedModel::verify(&serde_json::to_vec(&bare["dsseEnvelope"]).unwrap(), &key).is_ok());

    let carrier = |edit: fn(&mut Value)| refusal(&signed(&statement(), edit), &key);
    assert_eq!(carrier(|b| b["mediaType"] = "application/json".into()), Refusal::NotABundle);
    assert_eq!(carrier(|b| b["verificationMaterial"] = json!({"certificate": {"rawBytes": ""}})), Refusal::Certificate);
    assert_eq!(carrier(|b| b["verificationMaterial"] = json!({"x509CertificateChain": {}})), Refusal::Certificate);
    assert_eq!(carrier(|b| drop(b.as_object_mut().unwrap().remove("dsseEnvelope"))), Refusal::NotABundle);
    assert_eq!(refusal(b"", &key), Refusal::NotABundle);
    assert_eq!(refusal(b"[1]", &key), Refusal::NotABundle);
    assert_eq!(refusal(&signed(&statement(), |_| ()), &reference_key()), Refusal::Signature);
    assert_eq!(refusal(&vector("model.sig"), &key), Refusal::Signature);

    let content = |edit: fn(&mut Value)| {
        let mut statement = statement();
        edit(&mut statement);
        refusal(&signed(&statement, |_| ()), &key)
    };
    assert_eq!(content(|s| s["predicateType"] = "https://model_signing/signature/v2.0".into()), Refusal::Statement);
    assert_eq!(content(|s| s["_type"] = "x".into()), Refusal::Statement);
    assert_eq!(content(|s| s["subject"] = json!([])), Refusal::Statement);
    assert_eq!(content(|s| s["predicate"]["serialization"]["method"] = "shards".into()), Refusal::Serialization);
    assert_eq!(content(|s| s["predicate"]["serialization"]["hash_type"] = "blake2b".into()), Refusal::Serialization);
    for name in ["", "/a", "../a", "a/./b", "a//b", "a\\b", "b", "c"] {
        let mut statement = statement();
        statement["predicate"]["resources"][0]["name"] = name.into();
        assert_eq!(refusal(&signed(&statement, |_| ()), &key), Refusal::Resource, "{name:?}");
    }
    assert_eq!(content(|s| s["predicate"]["resources"][1]["algorithm"] = "blake3".into()), Refusal::Resource);
    assert_eq!(content(|s| s["predicate"]["resources"][1]["digest"] = "00".into()), Refusal::Resource);
    assert_eq!(content(|s| s["predicate"]["resources"] = json!([])), Refusal::Subject);
    assert_eq!(content(|s| drop(s["predicate"]["resources"].as_array_mut().unwrap().pop())), Refusal::Subject);

    assert!(ModelKey::from_pem("nothing").is_err());
}
