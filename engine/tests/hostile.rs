//! Safetensors folders that are damaged or made to do harm: each is refused, with the name of what is wrong.

mod common;

use std::path::Path;

use common::data;
use engine::Model;
use serde_json::{Value, json};

/// A scratch copy of a tiny model with these weights.
fn load(weights: &[u8]) -> String {
    let folder = scratch();
    std::fs::write(folder.path().join("model.safetensors"), weights).unwrap();
    refusal(folder.path())
}

fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(data("qwen2-tiny").join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn refusal(folder: &Path) -> String {
    Model::load(folder).map(|_| "it loads".to_owned()).unwrap_or_else(|e| e.to_string())
}

fn whole() -> Vec<u8> {
    std::fs::read(data("qwen2-tiny/model.safetensors")).unwrap()
}

/// The file with its header changed; the length before it is put right.
fn with_header(edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let bytes = whole();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    edit(&mut header);
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + length..]].concat()
}

const NAME: &str = "model.layers.0.self_attn.q_proj.bias";

#[test]
fn damaged_files_are_refused() {
    assert_eq!(load(&whole()), "it loads");
    let cases = [
        (whole()[..whole().len() - 1].to_vec(), "model.safetensors"),
        (whole()[..7].to_vec(), "model.safetensors"),
        (Vec::new(), "model.safetensors"),
        ([&(1u64 << 60).to_le_bytes()[..], &whole()[8..]].concat(), "model.safetensors"),
        (with_header(|h| h[NAME]["shape"] = json!([1u64 << 60])), "model.safetensors"),
        (with_header(|h| h[NAME]["shape"] = json!([1u64 << 40, 1u64 << 40])), "model.safetensors"),
        (with_header(|h| h[NAME]["data_offsets"] = json!([0, 192])), "model.safetensors"),
        (with_header(|h| h[NAME]["data_offsets"] = json!([1u64 << 60, (1u64 << 60) + 192])), "model.safetensors"),
        (with_header(|h| h[NAME]["shape"] = json!([2, 48])), NAME),
        (with_header(|h| h[NAME]["shape"] = json!([96, 1])), NAME),
        (with_header(|h| h[NAME]["dtype"] = "I16".into()), NAME),
        (with_header(|h| h[NAME]["dtype"] = "F16".into()), "it loads"),
    ];
    for (i, (bytes, wanted)) in cases.into_iter().enumerate() {
        let found = load(&bytes);
        assert!(found.contains(wanted), "case {i}: {found}");
    }
}

#[test]
fn a_weight_that_is_no_number_is_named() {
    let mut bytes = whole();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let start = file.tensor(NAME).unwrap().data().as_ptr() as usize - bytes.as_ptr() as usize;
    for bits in [0x7fc0u16, 0x7f80, 0xff80] {
        bytes[start + 10..start + 12].copy_from_slice(&bits.to_le_bytes());
        let found = load(&bytes);
        assert!(found.contains(NAME) && found.contains("element 5"), "{found}");
    }
}

#[test]
fn shards_are_where_the_index_says() {
    let part = |range: std::ops::Range<usize>| {
        let bytes = whole();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut views = file.tensors();
        views.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<String> = views[range.clone()].iter().map(|(n, _)| n.clone()).collect();
        (names, safetensors::serialize(views[range].to_vec(), None).unwrap())
    };
    let count = safetensors::SafeTensors::deserialize(&whole()).unwrap().len();
    let ((names_a, a), (names_b, b)) = (part(0..9), part(9..count));
    let try_map = |edit: &dyn Fn(&mut serde_json::Map<String, Value>), files: [(&str, &[u8]); 2]| {
        let folder = scratch();
        let mut map: serde_json::Map<String, Value> =
            names_a.iter().map(|n| (n.clone(), "a.safetensors".into())).collect();
        map.extend(names_b.iter().map(|n| (n.clone(), "b.safetensors".into())));
        edit(&mut map);
        let index = json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        refusal(folder.path())
    };
    let files = [("a.safetensors", &a[..]), ("b.safetensors", &b[..])];
    let first = names_a[0].clone();
    assert_eq!(try_map(&|_| (), files), "it loads");
    let missing = try_map(&|_| (), [("a.safetensors", &a[..]), ("c.safetensors", &b[..])]);
    assert!(missing.contains("b.safetensors"), "{missing}");
    let moved = try_map(&|m| drop(m.insert(first.clone(), "b.safetensors".into())), files);
    assert!(moved.contains(&first) && moved.contains("does not place"), "{moved}");
    let absent = try_map(&|m| drop(m.insert("lm_head.bias".into(), "b.safetensors".into())), files);
    assert!(absent.contains("lm_head.bias") && absent.contains("lacks"), "{absent}");
    let unlisted = try_map(&|m| drop(m.remove(&first)), files);
    assert!(unlisted.contains(&first), "{unlisted}");
    for outside in ["../a.safetensors", "/etc/passwd", "..", "sub/a.safetensors"] {
        let found = try_map(&|m| drop(m.insert(first.clone(), outside.into())), files);
        assert!(found.contains("plain name") && found.contains(outside), "{found}");
    }
    let twice = try_map(&|_| (), [("a.safetensors", &a[..]), ("b.safetensors", &a[..])]);
    assert!(twice.contains("does not place there"), "{twice}");
}

/// A device, a pipe or a folder is no weight file.
#[cfg(unix)]
#[test]
fn only_regular_files_are_mapped() {
    let folder = scratch();
    std::fs::create_dir(folder.path().join("model.safetensors")).unwrap();
    let found = refusal(folder.path());
    assert!(found.contains("model.safetensors") && found.contains("regular"), "{found}");
    let folder = scratch();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("model.safetensors")).unwrap();
    assert!(refusal(folder.path()).contains("regular"));
}

/// Sizes of every magnitude, in every number of the configuration: an error in words, and never an allocation to match.
#[test]
fn no_size_in_the_configuration_does_harm() {
    let text = std::fs::read(data("qwen2-tiny/config.json")).unwrap();
    let config: serde_json::Map<String, Value> = serde_json::from_slice(&text).unwrap();
    let numbers: Vec<&String> = config.iter().filter(|(_, v)| v.is_number()).map(|(k, _)| k).collect();
    assert!(numbers.len() > 8, "{numbers:?}");
    for key in numbers {
        for value in
            ["-1", "0", "1", "1000000", "2147483648", "4294967295", "4294967296", "1152921504606846976", "1e300", "0.5"]
        {
            let mut edited = config.clone();
            edited.insert(key.clone(), serde_json::from_str(value).unwrap());
            let folder = scratch();
            std::fs::write(folder.path().join("model.safetensors"), whole()).unwrap();
            std::fs::write(folder.path().join("config.json"), Value::Object(edited).to_string()).unwrap();
            let found = refusal(folder.path());
            assert!(
                found == "it loads"
                    || found.contains(key.as_str())
                    || found.contains("tensor")
                    || found.contains("vocabulary"),
                "{key} = {value}: {found}"
            );
        }
    }
}
