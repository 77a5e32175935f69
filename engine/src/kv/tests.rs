use super::*;

#[test]
fn pages_come_lowest_first_and_go_back() {
    let mut kv = KvTables::new(4, 2, 40);
    let (a, b) = (kv.open().unwrap(), kv.open().unwrap());
    assert!(matches!(kv.open(), Err(Error::CacheFull { .. })));
    kv.extend(a, 16).unwrap();
    kv.extend(b, 1).unwrap();
    kv.extend(a, 17).unwrap();
    assert_eq!(kv.column(a, 16).unwrap(), 2 * PAGE);
    assert_eq!(kv.column(b, 0).unwrap(), PAGE);
    assert_eq!(kv.block_table(), [0, 2, 0, 1, 0, 0]);
    kv.truncate(a, 3).unwrap();
    assert!(kv.column(a, 3).is_err());
    kv.extend(b, 33).unwrap();
    assert_eq!(kv.block_table()[3..], [1, 2, 3]);
    kv.close(b).unwrap();
    kv.extend(a, 33).unwrap();
    assert_eq!(kv.column(a, 32).unwrap(), 2 * PAGE);
}

#[test]
fn a_failed_call_changes_nothing() {
    let mut kv = KvTables::new(2, 1, 100);
    let a = kv.open().unwrap();
    kv.extend(a, 5).unwrap();
    let before = format!("{kv:?}");
    assert!(matches!(kv.extend(a, 33), Err(Error::CacheFull { .. })));
    assert!(matches!(kv.extend(a, 101), Err(Error::Plan { .. })));
    assert!(matches!(kv.truncate(a, 6), Err(Error::Plan { .. })));
    assert!(matches!(kv.extend(Slot(1), 1), Err(Error::Plan { .. })));
    assert_eq!(format!("{kv:?}"), before);
}

/// Names of all full pages of these tokens.
fn names(tokens: &[u32]) -> Vec<PageName> {
    page_names(tokens, PAGE)
}

fn from(request: u64) -> Source {
    Source { request, step: 3 }
}

#[test]
fn a_published_prefix_is_adopted_and_outlives_its_request() {
    let mut kv = KvTables::new(6, 3, 64);
    let tokens: Vec<u32> = (0..48).collect();
    let a = kv.open().unwrap();
    kv.extend(a, 40).unwrap();
    kv.publish(a, &names(&tokens[..40]), from(7)).unwrap();
    kv.close(a).unwrap();
    assert_eq!(kv.available(), 6);
    let other: Vec<u32> = (0..32).chain([99; 16]).collect();
    assert_eq!((kv.cached(&names(&tokens)), kv.cached(&names(&other)), kv.cached(&names(&tokens[1..]))), (2, 2, 0));
    let (b, c) = (kv.open().unwrap(), kv.open().unwrap());
    assert_eq!(kv.adopt(b, &names(&tokens[..32])).unwrap(), [Adopted { source: from(7), pages: 2 }]);
    assert_eq!(kv.adopt(c, &names(&tokens[..16])).unwrap(), [Adopted { source: from(7), pages: 1 }]);
    assert_eq!((kv.len(b).unwrap(), kv.len(c).unwrap()), (32, 16));
    assert_eq!(kv.column(b, 3).unwrap(), kv.column(c, 3).unwrap());
    // Positions inside a shared page cannot be given up; whole pages can.
    assert!(matches!(kv.truncate(b, 5), Err(Error::Plan { .. })));
    kv.truncate(b, 16).unwrap();
    kv.close(c).unwrap();
    kv.truncate(b, 5).unwrap();
    assert_eq!(kv.cached(&names(&tokens)), 0, "a page about to be overwritten is no longer offered");
}

#[test]
fn the_prefix_unused_for_longest_makes_room_first() {
    let mut kv = KvTables::new(3, 2, 64);
    let texts: Vec<Vec<u32>> = (0..3).map(|i| vec![i; 16]).collect();
    for (i, text) in texts.iter().enumerate() {
        let a = kv.open().unwrap();
        kv.extend(a, 16).unwrap();
        kv.publish(a, &names(text), from(i as u64)).unwrap();
        kv.close(a).unwrap();
    }
    let a = kv.open().unwrap();
    kv.adopt(a, &names(&texts[0])).unwrap();
    kv.close(a).unwrap();
    let b = kv.open().unwrap();
    kv.extend(b, 16).unwrap();
    let left: Vec<u32> = texts.iter().map(|t| kv.cached(&names(t))).collect();
    assert_eq!(left, [1, 0, 1]);
    // The same text computed twice is published once.
    kv.publish(b, &names(&texts[2]), from(9)).unwrap();
    kv.close(b).unwrap();
    assert_eq!(kv.available(), 3);
    let c = kv.open().unwrap();
    assert_eq!(kv.adopt(c, &names(&texts[2])).unwrap(), [Adopted { source: from(2), pages: 1 }]);
    assert!(matches!(kv.adopt(c, &names(&texts[2])), Err(Error::Plan { .. })));
    assert!(matches!(kv.publish(c, &names(&texts.concat()), from(1)), Err(Error::Plan { .. })));
}
