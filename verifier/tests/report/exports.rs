//! Exports, judged by the published schemas of their formats.

use std::io::Read as _;

use serde_json::Value;
use verifier::report::export::{Format, write};

fn schema(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas").join(format!("{name}.json.xz"));
    let mut text = String::new();
    lzma_rust2::XzReader::new(std::fs::File::open(path).unwrap(), false).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The schema with the parts of CycloneDX that lie in files of their own.
fn validator(format: Format) -> Option<jsonschema::Validator> {
    let schema = match format {
        Format::Oscal => by_pointer(schema("oscal-ar-1.0.6")),
        Format::Sarif => schema("sarif-schema-2.1.0"),
        Format::CycloneDx => {
            let mut bom = schema("bom-1.6.schema");
            for (file, key) in [("spdx.schema", "spdx"), ("jsf-0.82.schema", "jsf")] {
                let mut part = schema(file);
                part.as_object_mut().unwrap().remove("$id");
                inline(&mut part, "#/", &format!("#/definitions/{key}/"));
                bom["definitions"][key] = part;
                let outside = format!("{file}.json");
                inline(&mut bom, &format!("{outside}#"), &format!("#/definitions/{key}"));
                inline(&mut bom, &outside, &format!("#/definitions/{key}"));
            }
            bom
        }
        Format::Junit | Format::Csv => return None,
    };
    Some(jsonschema::validator_for(&schema).unwrap())
}

/// The same schema with definitions named by pointers: the validator does not find those that are named by a fragment in `$id`.
fn by_pointer(mut schema: Value) -> Value {
    let mut names = Vec::new();
    for (key, definition) in schema["definitions"].as_object_mut().unwrap() {
        let definition = definition.as_object_mut().unwrap();
        if definition.get("$id").and_then(Value::as_str).is_some_and(|id| id.starts_with('#')) {
            let Some(Value::String(id)) = definition.remove("$id") else { unreachable!() };
            names.push((id, format!("#/definitions/{}", key.replace('~', "~0").replace('/', "~1"))));
        }
    }
    // The longest first: no name is the beginning of a later one.
    names.sort_by_key(|(id, _)| std::cmp::Reverse(id.len()));
    for (id, pointer) in &names {
        inline(&mut schema, id, pointer);
    }
    schema
}

/// Points references that begin with `from` to `to`.
fn inline(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(text) if key == "$ref" && text.starts_with(from) => {
                        *text = text.replacen(from, to, 1)
                    }
                    other => inline(other, from, to),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| inline(item, from, to)),
        _ => {}
    }
}

#[test]
fn exports_are_what_their_schemas_say() {
    for format in Format::ALL {
        let Some(validator) = validator(format) else { continue };
        for signed in super::signed() {
            let document: Value = serde_json::from_slice(&write(&signed, format, None).unwrap()).unwrap();
            let wrong: Vec<String> =
                validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", format.name(), signed.result.subject.name);
        }
        assert!(!validator.is_valid(&serde_json::json!({"version": 1})), "the schema refuses something");
    }
}

#[test]
fn exports_name_the_signed_bytes_and_are_the_same_twice() {
    for format in Format::ALL {
        for signed in super::signed() {
            let once = write(&signed, format, None).unwrap();
            assert_eq!(once, write(&signed, format, None).unwrap());
            let text = String::from_utf8(once).unwrap();
            assert!(text.contains(&signed.digest().to_hex()), "{}", format.name());
        }
    }
}

#[test]
fn a_gate_stops_at_whatever_is_not_a_match() {
    for signed in super::signed() {
        let held = signed.result.verdict == verifier::Verdict::Match;
        let junit = String::from_utf8(write(&signed, Format::Junit, None).unwrap()).unwrap();
        let head = junit.lines().nth(2).unwrap();
        assert_eq!(head.contains("failures=\"0\" errors=\"0\""), held, "{head}");
        let sarif: Value = serde_json::from_slice(&write(&signed, Format::Sarif, None).unwrap()).unwrap();
        let stops = |r: &Value| r["kind"] == "fail" && r["level"] != "note";
        assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().iter().any(stops), !held);
    }
}

#[test]
fn every_framework_is_mapped_and_nothing_is_concluded() {
    for signed in super::signed() {
        let crosswalk = verifier::report::crosswalk::of(&signed).unwrap();
        assert_eq!(crosswalk.frameworks.len(), 3);
        for framework in &crosswalk.frameworks {
            assert!(framework.dates.to_lowercase().contains("check before use"), "{}", framework.dates);
            assert!(framework.clauses.iter().all(|c| c.evidence.iter().all(|e| !e.is_empty())));
        }
        let all = serde_json::to_string(&crosswalk).unwrap().to_lowercase();
        assert!(!all.contains("complies") && !all.contains("compliant"));
    }
}
