//! `docs/arithmetic.md` holds the table that the code prints.

use emulator::open::Open;
use emulator::standing::{Standing, rows, table};

#[test]
fn the_document_holds_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/arithmetic.md");
    let document = std::fs::read_to_string(path).expect("docs/arithmetic.md");
    assert!(document.contains(&table()), "docs/arithmetic.md is out of date; the table is now:\n{}", table());
}

#[test]
fn every_refusal_is_in_the_table_and_names_its_probe() {
    let rows = rows();
    for open in Open::ALL {
        let row = rows.iter().find(|row| row.operation == open.operation()).expect("a row");
        assert_eq!(row.standing, Standing::Open);
        let error = open.unsupported().to_string();
        assert!(error.contains(open.operation()) && error.contains(open.probe()), "{error}");
    }
    let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.operation.as_str()).collect();
    assert_eq!(names.len(), rows.len(), "no operation stands twice");
    for standing in [Standing::Defined, Standing::Confirmed, Standing::Likely, Standing::Open] {
        assert!(rows.iter().any(|row| row.standing == standing));
    }
}
