//! Profiles as text.

use emulator::mufu::MufuTables;

const PROFILE: &str = include_str!("../../data/mufu-g80.txt");

#[test]
fn the_committed_profile_is_what_is_printed() {
    let comment: Vec<&str> = PROFILE
        .lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim_start())
        .collect();
    assert_eq!(MufuTables::g80().to_text(&comment.join("\n")), PROFILE);
}

#[test]
fn malformed_profiles_are_refused_with_their_line() {
    let body: Vec<&str> = PROFILE.lines().filter(|line| !line.starts_with('#')).collect();
    let with = |line: usize, text: &str| {
        let mut lines = body.clone();
        lines[line] = text;
        lines.join("\n")
    };
    let refused = [
        (String::new(), "line 1"),
        ("mufu-profile 2".to_owned(), "line 1"),
        (with(1, "rcp"), "line 2"),
        (with(1, "tanh 128"), "line 2"),
        (with(1, "rcp 0"), "line 2"),
        (with(1, "rcp 99999999999999999999"), "line 2"),
        (with(1, "rcp 64"), "line 67"),
        (with(2, "1 2"), "line 3"),
        (with(2, "1 2 3 4"), "line 3"),
        (with(2, "1 2 x"), "line 3"),
        (with(2, "-1 0 0"), "segment 0"),
        (with(2, "0 65536 0"), "segment 0"),
        (with(2, "0 0 -1024"), "segment 0"),
        (with(1, "rcp listed"), "line 3"),
        (body[..body.len() - 1].join("\n"), "ends before"),
        (body[..130].join("\n"), "neither fitted nor listed"),
        (format!("{}\n{}", body.join("\n"), "rcp 1\n1 2 3"), "twice"),
    ];
    for (text, expected) in refused {
        let message = MufuTables::parse(&text).expect_err(expected).to_string();
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }
}
