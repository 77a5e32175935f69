//! Malformed files are errors with a line number; unknown instructions are named.

use super::*;

const GOOD: &str = r#"{"arch":"Hopper","op":"mma","inst":"m16n8k4.f32.tf32.tf32.f32","a":"3f800000000000000000000000000000","b":"40000000000000000000000000000000","c":"3f800000","d":"40400000"}"#;
const RECORDED: &str = r#"{"gpu":"V100","arch":"Volta","path":"warp-mma","model":"T-FDPA","ab":"f16","cd":"f32","k":4,"a":"b5a2b8cbbb46b142","b":"be5d3764bea439e6","c":"3f5445a1","d":"40200bf9"}"#;

fn run(text: &str) -> Result<FileReport, Error> {
    judge("t.jsonl", text.as_bytes(), Answers::Both)
}

#[test]
fn counts_groups_and_names() {
    let unknown = GOOD.replace("m16n8k4.f32", "m16n8k99.f32");
    let alien = RECORDED.replace("V100", "V9000");
    let wrong = GOOD.replace("40400000", "40400001");
    let report = run(&format!("{GOOD}\n\n{unknown}\n{RECORDED}\n{alien}\n{wrong}\n")).unwrap();
    assert_eq!((report.total, report.passed, report.failed, report.not_covered), (5, 2, 1, 2));
    assert_eq!(report.groups.len(), 4);
    assert_eq!(report.groups.iter().filter(|g| g.hardware).count(), 2);
    assert_eq!(
        report.uncovered().collect::<Vec<_>>(),
        ["Hopper mma m16n8k99.f32.tf32.tf32.f32", "Volta warp-mma f32.f16.f16.f32 k4 on V9000"]
    );
    let [failure] = &report.failures[..] else { panic!("one failure") };
    assert_eq!((failure.line, failure.expected.as_str(), failure.found.as_str()), (6, "40400001", "40400000"));
}

#[test]
fn recorded_lines_may_name_their_profile_and_say_that_they_are_no_hardware() {
    let card = RECORDED.replace(r#""gpu":"V100""#, r#""gpu":"Tesla V100-SXM2-16GB","sm":"sm_70""#);
    let loopback = RECORDED.replace(r#""gpu":"V100""#, r#""gpu":"a driver, not a GPU","sm":"sm_70""#);
    let alien = RECORDED.replace(r#""gpu":"V100""#, r#""gpu":"V100","sm":"sm_7""#);
    let report = run(&format!("{card}\n{loopback}\n{alien}\n")).unwrap();
    assert_eq!((report.passed, report.not_covered), (2, 1));
    assert_eq!(report.groups.iter().map(|g| g.hardware).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn each_policy_has_its_own_answer() {
    // Worked example E9: a zero operand times 2^127 beside a tiny product.
    let line = r#"{"arch":"Ampere","op":"mma","inst":"m16n8k8.f32.bf16.bf16.f32","a":"00002b80000000000000000000000000","b":"7f002b80000000000000000000000000","c":"00000000","d":"00000000","alt":"17800000"}"#;
    for answers in [Answers::Both, Answers::Only(ZeroPolicy::Exclude), Answers::Only(ZeroPolicy::SentinelMinus126)] {
        assert_eq!(judge("e9", line.as_bytes(), answers).unwrap().passed, 1);
    }
    let without = line.replace(r#","alt":"17800000""#, "");
    assert_eq!(judge("e9", without.as_bytes(), Answers::Only(ZeroPolicy::Exclude)).unwrap().failed, 1);
    assert_eq!(judge("e9", without.as_bytes(), Answers::Only(ZeroPolicy::SentinelMinus126)).unwrap().passed, 1);
}

#[test]
fn malformed_lines_are_errors_with_their_number() {
    let cases = [
        ("{", "JSON"),
        ("[]", "JSON"),
        (r#"{"arch":"Hopper"}"#, "JSON"),
        (r#"{"arch":"Hopper","a":"","b":"","c":"","d":""}"#, "neither"),
        (&GOOD.replace("40400000", "4040000g"), "`d` is not hexadecimal"),
        (&GOOD.replace("40400000", "4040000"), "`d` has 7 hex digits, not 8"),
        (&GOOD.replace(r#""a":"3f8"#, r#""a":"3f"#), "`a` has 31 hex digits, not 32"),
        (&GOOD.replace("\"40400000\"", "\"4040000é\""), "`d` is not hexadecimal"),
        (&RECORDED.replace("\"k\":4", "\"k\":-4"), "JSON"),
        (&RECORDED.replace("\"k\":4", "\"k\":0"), "`a` has 16 hex digits, not 0"),
        (&RECORDED.replace("\"k\":4", "\"k\":18446744073709551615"), "hex digits"),
    ];
    for (bad, message) in cases {
        let error = run(&format!("{GOOD}\n{bad}")).unwrap_err().to_string();
        assert!(error.contains("t.jsonl:2:") && error.contains(message), "{bad}: {error}");
    }
}

#[test]
fn a_report_serialises() {
    let json = serde_json::to_value(run(GOOD).unwrap()).unwrap();
    for key in ["file", "total", "passed", "failed", "not_covered", "groups", "failures"] {
        assert!(json.get(key).is_some(), "{key}");
    }
}

#[test]
fn block_scales_must_be_there_and_as_many_as_blocks() {
    let line = |scales: &str| {
        let zeros = "0".repeat(64);
        format!(
            r#"{{"arch":"RTX Blackwell","op":"mma.block_scale","inst":"m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3","a":"{zeros}","b":"{zeros}","c":"3f800000","d":"3f800000"{scales}}}"#
        )
    };
    let report = run(&line(r#","sa":"38383838","sb":"38383838""#)).unwrap();
    assert_eq!((report.passed, report.groups[0].profile, report.groups[0].confidence), (1, Some("sm_120"), Some("XM")));
    let good = r#","sa":"38383838""#;
    let with_scales = GOOD.replace('}', &format!("{good}}}"));
    let cases = [
        (line(""), "field `sa` is missing"),
        (line(good), "field `sb` is missing"),
        (line(r#","sa":"383838","sb":"38383838""#), "`sa` has 6 hex digits, not 8"),
        (line(r#","sa":"38383838","sb":"3838383g""#), "`sb` is not hexadecimal"),
        (with_scales, "field `sa` is present"),
    ];
    for (bad, message) in cases {
        let error = run(&bad).unwrap_err().to_string();
        assert!(error.contains("t.jsonl:1:") && error.contains(message), "{bad}: {error}");
    }
}
