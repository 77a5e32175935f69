//! Canonical JSON: accepted and refused bytes, published in `tests/vectors/canonical-json.json`.

use std::path::PathBuf;

use proptest::prelude::*;
use record::Digest;
use record::canonical::{MAX_DEPTH, MAX_INTEGER, Refusal, read, read_value, to_bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const LIMIT: usize = 4096;

/// What the document calls each refusal.
fn code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::TooLarge { .. } => "too-large",
        Refusal::Syntax(_) => "syntax",
        Refusal::DuplicateKey { .. } => "duplicate-key",
        Refusal::Number { .. } => "number",
        Refusal::NotNfc { .. } => "not-nfc",
        Refusal::TooDeep { .. } => "too-deep",
        Refusal::NotCanonical { .. } => "not-canonical",
        Refusal::Shape(_) => "shape",
        _ => "other",
    }
}

struct Case {
    id: u32,
    comment: &'static str,
    bytes: Vec<u8>,
    /// `None`: canonical.
    reason: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |id, reason: &'static str, comment, bytes: &[u8]| {
        let reason = (reason != "valid").then_some(reason);
        cases.push(Case { id, comment, bytes: bytes.to_vec(), reason });
    };
    add(
        1,
        "valid",
        "the example of the document",
        "{\"a\":\"Zürich\",\"b\":[1,-7],\"big\":\"18446744073709551615\",\"scale\":\"3f000000\"}".as_bytes(),
    );
    add(2, "valid", "an empty object", b"{}");
    add(3, "valid", "scalars", b"[null,true,false,0,\"\"]");
    add(4, "valid", "the largest and smallest integer", b"[9007199254740991,-9007199254740991]");
    // RFC 8785 section 3.2.3: sorted by UTF-16 code units, not by code points.
    add(5, "valid", "member order of RFC 8785 3.2.3", "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\"}".as_bytes());
    add(6, "valid", "minimal escapes", b"[\"\\u0000\\u001f\\b\\t\\n\\f\\r\\\"\\\\/\x7f\"]");
    add(7, "valid", "the deepest nesting", nested(MAX_DEPTH).as_bytes());
    add(20, "syntax", "nothing", b"");
    add(21, "syntax", "a member without value", b"{\"a\"}");
    add(22, "syntax", "bytes after the value", b"{}{}");
    add(23, "syntax", "not UTF-8", b"[\"\xff\"]");
    add(24, "syntax", "a lone surrogate", b"[\"\\ud83d\"]");
    add(25, "syntax", "a leading zero", b"[01]");
    add(26, "syntax", "a leading plus", b"[+1]");
    add(27, "syntax", "not a number", b"[NaN]");
    add(28, "syntax", "a raw control character in a string", b"[\"\n\"]");
    add(29, "syntax", "a byte order mark", b"\xef\xbb\xbf{}");
    add(30, "duplicate-key", "a member twice", b"{\"a\":1,\"a\":1}");
    add(31, "duplicate-key", "a member twice, once escaped", b"{\"a\":1,\"\\u0061\":2}");
    add(32, "duplicate-key", "a member twice, deep inside", b"{\"a\":[{\"b\":{\"c\":1,\"c\":2}}]}");
    add(40, "number", "2^53", b"[9007199254740992]");
    add(41, "number", "-2^53", b"[-9007199254740992]");
    add(42, "number", "2^64", b"[18446744073709551616]");
    add(43, "number", "a fraction", b"[0.5]");
    add(44, "number", "an integer written as a fraction", b"[1.0]");
    add(45, "number", "an exponent", b"[1e3]");
    add(46, "number", "minus zero", b"[-0]");
    add(47, "number", "a number of two hundred digits", "9".repeat(200).as_bytes());
    add(50, "not-nfc", "a decomposed umlaut in a value", "[\"Zu\u{308}rich\"]".as_bytes());
    add(51, "not-nfc", "a decomposed umlaut in a name", "{\"u\u{308}\":1}".as_bytes());
    add(52, "not-nfc", "a compatibility singleton: the Angstrom sign", "[\"\u{212b}\"]".as_bytes());
    add(60, "too-deep", "one level too many", nested(MAX_DEPTH + 1).as_bytes());
    add(61, "too-deep", "nesting without end", &vec![b'['; LIMIT]);
    add(70, "not-canonical", "a space", b"{\"a\": 1}");
    add(71, "not-canonical", "a final newline", b"{}\n");
    add(72, "not-canonical", "members out of order", b"{\"b\":1,\"a\":2}");
    add(73, "not-canonical", "order of code points, not of UTF-16 units", "{\"\u{fb00}\":1,\"😀\":2}".as_bytes());
    add(74, "not-canonical", "an escape that need not be one", b"[\"\\u0061\"]");
    add(75, "not-canonical", "an escaped solidus", b"[\"\\/\"]");
    add(76, "not-canonical", "upper-case hex in an escape", b"[\"\\u001F\"]");
    add(80, "too-large", "more bytes than this artefact may have", &vec![b' '; LIMIT + 1]);
    cases
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

#[test]
fn each_case_has_its_reason() {
    for case in cases() {
        let read = read_value(&case.bytes, LIMIT);
        let reason = read.as_ref().err().map(code);
        assert_eq!(reason, case.reason, "case {}: {}", case.id, case.comment);
        if let Ok(value) = read {
            assert_eq!(to_bytes(&value).unwrap(), case.bytes, "case {}", case.id);
        }
    }
}

/// `UPDATE_VECTORS=1 cargo test` writes the file.
#[test]
fn published_vectors_are_current() {
    let cases = cases();
    assert!(cases.windows(2).all(|pair| pair[0].id < pair[1].id), "ids ascend and are not reused");
    let tests: Vec<Value> = cases
        .iter()
        .map(|case| {
            json!({
                "id": case.id,
                "comment": case.comment,
                "bytes": hex::encode(&case.bytes),
                "sha256": Digest::of_file(&case.bytes).to_hex(),
                "result": if case.reason.is_none() { "valid" } else { "invalid" },
                "reason": case.reason,
            })
        })
        .collect();
    let mut document = json!({
        "schema": "lastbit/vectors/canonical-json/v1",
        "op": "canonical-json-read",
        "provenance": {"tool": "record/tests/canonical.rs", "licence": "Apache-2.0"},
        "notes": {"reason": "The closed vocabulary of docs/spec/canonical-json.md."},
        "groups": [{"max_bytes": LIMIT, "tests": tests}],
    });
    // Other crates of a build may ask serde_json to keep insertion order.
    document.sort_all_objects();
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/canonical-json.json");
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == text,
        "run with UPDATE_VECTORS=1 and review the diff"
    );
}

#[test]
fn refusals_say_where() {
    let message = |bytes: &[u8]| read_value(bytes, LIMIT).unwrap_err().to_string();
    assert!(message(b"{\"a\":[0,{\"b/c\":0.5}]}").contains("/a/1/b~1c"));
    assert!(message(b"{\"a\":{\"b\":1,\"b\":2}}").contains("\"b\" of /a "));
    assert!(message(b"[1, 2]").contains("byte 3"));
    assert!(message(b"[1,}").contains("line 1 column 4"));
}

#[test]
fn nothing_is_rounded_or_normalised_when_writing() {
    assert_eq!(code(&to_bytes(&json!({"a": MAX_INTEGER + 1})).unwrap_err()), "number");
    assert_eq!(code(&to_bytes(&json!([0.5])).unwrap_err()), "number");
    assert_eq!(code(&to_bytes(&json!([1.0])).unwrap_err()), "number");
    assert_eq!(code(&to_bytes("u\u{308}").unwrap_err()), "not-nfc");
    let deep: Value = serde_json::from_str(&nested(MAX_DEPTH + 1)).unwrap();
    assert_eq!(code(&to_bytes(&deep).unwrap_err()), "too-deep");
    assert!(to_bytes(&std::collections::BTreeMap::from([((1, 2), 3)])).is_err());
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    a: u32,
    b: Option<u32>,
}

#[test]
fn members_are_neither_defaulted_nor_ignored() {
    assert_eq!(read::<Typed>(b"{\"a\":1,\"b\":null}", LIMIT).unwrap(), Typed { a: 1, b: None });
    let refused = |bytes: &[u8]| code(&read::<Typed>(bytes, LIMIT).unwrap_err());
    assert_eq!(refused(b"{\"a\":1,\"b\":2,\"c\":3}"), "shape");
    assert_eq!(refused(b"{\"b\":2}"), "shape");
    assert_eq!(refused(b"{\"a\":-1,\"b\":2}"), "shape");
    assert_eq!(refused(b"{\"a\":\"1\",\"b\":2}"), "shape");
    // serde alone would take a missing optional member for null.
    assert_eq!(refused(b"{\"a\":1}"), "not-canonical");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(MAX_INTEGER as i64)..=MAX_INTEGER as i64).prop_map(Value::from),
        "\\PC{0,8}".prop_map(|text| nfc(&text)),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-zé]{0,4}", inner, 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn nfc(text: &str) -> Value {
    use unicode_normalization::UnicodeNormalization;
    text.nfc().collect::<String>().into()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_and_has_one_spelling(value in any_json()) {
        let bytes = to_bytes(&value).unwrap();
        prop_assert_eq!(&read_value(&bytes, 1 << 20).unwrap(), &value);
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(read_value(&pretty, 1 << 20).is_ok(), pretty == bytes);
    }

    #[test]
    fn a_changed_byte_is_another_value_or_refused(value in any_json(), at in any::<prop::sample::Index>(), byte: u8) {
        let bytes = to_bytes(&value).unwrap();
        let mut changed = bytes.clone();
        let at = at.index(changed.len());
        changed[at] = byte;
        if let Ok(other) = read_value(&changed, 1 << 20) {
            prop_assert_eq!(other == value, changed == bytes);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_value(&bytes, 100);
    }
}
