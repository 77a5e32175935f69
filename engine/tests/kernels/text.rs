//! What holds of every text, whatever runs it.

use crate::catalogue::texts;

#[test]
fn every_text_parses_to_what_was_printed() {
    for (what, text) in texts() {
        let module = ptx::parse(&text.ptx).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(ptx::print(&module), text.ptx, "{what}");
        assert!(module.kernel(&text.name).is_some(), "{what}: the entry has another name");
        assert_eq!((module.version, module.target), ((7, 0), 80), "{what}: runs on every GPU since Ampere");
    }
}

#[test]
fn the_same_spec_gives_the_same_text() {
    assert_eq!(texts(), texts());
}

#[test]
fn every_text_passes_the_lint() {
    for (what, text) in texts() {
        let module = ptx::parse(&text.ptx).expect("a text parses");
        let findings: Vec<String> = ptx::lint(&module).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{what}:\n{}", findings.join("\n"));
    }
}
