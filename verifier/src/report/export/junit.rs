//! JUnit XML: a suite a record, a case a claim. What stops a gate is a failure or an error; only claims that are not required may be skipped.

use super::{judged, sampling};
use crate::result::SignedResult;
use crate::verdict::Verdict;
use std::fmt::Write as _;

pub(super) fn document(signed: &SignedResult) -> String {
    let result = &signed.result;
    let (mut suites, mut total) = (String::new(), [0_usize; 4]);
    if let Some(refused) = &result.log.refused {
        total[0] += 1;
        total[2] += 1;
        let detail = text(&format!("{}: {}", refused.reason, refused.detail));
        let _ = write!(
            suites,
            "  <testsuite name=\"log\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">\n    <testcase classname=\"log\" name=\"log\">\n      \
             <error type=\"{}\" message=\"{detail}\"/>\n    </testcase>\n  </testsuite>\n",
            result.verdict
        );
    }
    for record in &result.records {
        let (mut cases, mut count) = (String::new(), [0_usize; 4]);
        for claim in judged(signed, record) {
            count[0] += 1;
            let outcome = match claim.verdict {
                Verdict::Match => None,
                Verdict::Mismatch => Some((1, "failure")),
                _ if claim.stops() => Some((2, "error")),
                _ => Some((3, "skipped")),
            };
            let _ = write!(cases, "    <testcase classname=\"{}\" name=\"{}\"", text(&record.name()), claim.claim);
            match outcome {
                None => cases.push_str("/>\n"),
                Some((place, element)) => {
                    count[place] += 1;
                    let message = text(&format!("{}: {}", claim.verdict, claim.detail));
                    let kind =
                        if element == "skipped" { String::new() } else { format!(" type=\"{}\"", claim.verdict) };
                    let _ = write!(cases, ">\n      <{element}{kind} message=\"{message}\"/>\n    </testcase>\n");
                }
            }
        }
        for (sum, n) in total.iter_mut().zip(count) {
            *sum += n;
        }
        let _ = write!(
            suites,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n    <properties>\n      \
             <property name=\"record\" value=\"{}\"/>\n      <property name=\"verdict\" value=\"{}\"/>\n      \
             <property name=\"headline\" value=\"{}\"/>\n    </properties>\n{cases}  </testsuite>\n",
            text(&record.name()),
            count[0],
            count[1],
            count[2],
            count[3],
            text(&record.digest),
            record.verdict,
            text(&record.headline),
        );
    }
    // No record at all is not a pass.
    if total[0] == 0 {
        total = [1, 0, 1, 0];
        let _ = write!(
            suites,
            "  <testsuite name=\"log\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">\n    <testcase classname=\"log\" name=\"records\">\n      \
             <error type=\"{}\" message=\"no record was audited\"/>\n    </testcase>\n  </testsuite>\n",
            result.verdict
        );
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- signed result sha256 {}; {} -->\n<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{suites}</testsuites>\n",
        signed.digest().to_hex(),
        sampling(signed).replace("--", "- -"),
        text(&format!("audit of {}", result.subject.name)),
        total[0],
        total[1],
        total[2],
        total[3],
    )
}

/// Text inside a quoted attribute. Characters that XML 1.0 cannot hold become a replacement character.
fn text(text: &str) -> String {
    let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{1_0000}'..);
    super::super::svg::escape(&text.chars().map(|c| if legal(c) { c } else { '\u{fffd}' }).collect::<String>())
        .replace('\n', "&#10;")
        .replace('\r', "&#13;")
        .replace('\t', "&#9;")
}
