//! Comma-separated values (RFC 4180): a line a claim, so that a spreadsheet can filter.

use super::judged;
use crate::result::SignedResult;

const HEADER: &str = "signed_result_sha256,subject,record,last,record_digest,record_verdict,level,claim,required,verdict,detail,headline";

pub(super) fn document(signed: &SignedResult) -> String {
    let result = &signed.result;
    let mut out = format!("{HEADER}\r\n");
    let mut row = |cells: [&str; 11]| {
        let cells: Vec<String> = [signed.digest().to_hex().as_str()].into_iter().chain(cells).map(cell).collect();
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    };
    let log = result.verdict.name();
    if let Some(refused) = &result.log.refused {
        row([&result.subject.name, "", "", "", log, "", "log", "true", log, &refused.detail, &result.headline]);
    }
    for r in &result.records {
        let (seq, last) = (r.seq.to_string(), r.last.to_string());
        let level = r.level.map_or(String::new(), |l| l.to_string());
        for c in judged(signed, r) {
            let required = if c.required { "true" } else { "false" };
            let of_claim = [c.claim.name(), required, c.verdict.name(), c.detail];
            let [claim, required, verdict, detail] = of_claim;
            let of_record = [r.digest.as_str(), r.verdict.name(), level.as_str()];
            let [digest, verdict_of_record, level] = of_record;
            row([
                &result.subject.name,
                &seq,
                &last,
                digest,
                verdict_of_record,
                level,
                claim,
                required,
                verdict,
                detail,
                &r.headline,
            ]);
        }
    }
    out
}

/// A cell. One that a spreadsheet would take for a formula gets an apostrophe before it.
fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(cell("=1+1"), "'=1+1");
        assert_eq!(cell("plain"), "plain");
    }
}
