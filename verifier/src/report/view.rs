//! What the page shows of each audit, prepared for the template.

use super::{bits, svg};
use crate::explain;
use crate::ranges::Ranges;
use crate::result::{
    AuditResult, Cause, CellState, Channel, ClaimKind, ClaimResult, GrowthPoint, IdentityField, Margins, Outcome,
    RecordResult, SignedResult, StepMatrix, TokenFinding, Unverified,
};
use crate::verdict::Verdict;
use std::fmt::Write as _;

/// One audited log.
pub(super) struct Audit<'a> {
    pub anchor: String,
    pub result: &'a AuditResult,
    pub digest: String,
    pub file: Option<&'a str>,
    pub signer: String,
    /// Public key of the signer, in hex.
    pub key: String,
    /// The signed bytes; text, since an envelope is JSON.
    pub signed: &'a str,
    pub records: Vec<Record<'a>>,
}

/// One record.
pub(super) struct Record<'a> {
    pub r: &'a RecordResult,
    pub explained: bool,
    pub divergence_words: String,
    pub bits_table: String,
    pub token_rows: Vec<&'a TokenFinding>,
    pub alternatives: Vec<String>,
    pub matrix: String,
    pub growth: String,
    pub margins: String,
}

/// Channels shared by one or more audits.
pub(super) struct Channels<'a> {
    pub scope: String,
    pub items: &'a [Channel],
}

impl<'a> Audit<'a> {
    pub fn new(index: usize, signed: &'a SignedResult) -> Self {
        Self {
            anchor: format!("audit-{}", index + 1),
            result: &signed.result,
            digest: signed.digest().to_string(),
            file: signed.file.as_deref(),
            signer: signed.signer.to_string(),
            key: hex::encode(signed.key.as_bytes()),
            signed: std::str::from_utf8(&signed.bytes).unwrap_or_default(),
            records: signed.result.records.iter().map(Record::new).collect(),
        }
    }

    /// The digest without its algorithm.
    pub fn hex(&self) -> &str {
        self.digest.trim_start_matches("sha256:")
    }

    pub fn requires(&self, claim: &ClaimKind) -> bool {
        self.result.method.required.contains(claim)
    }

    /// Chances of missing dishonest records, in one line; empty when every record was audited.
    pub fn misses(&self) -> String {
        let sampling = &self.result.sampling;
        if sampling.audited >= sampling.population {
            return String::new();
        }
        let bounds = sampling.bounds.iter().map(|b| format!("{} dishonest: {}", b.dishonest, b.miss));
        format!("chance of missing all of {}", bounds.collect::<Vec<_>>().join("; "))
    }
}

impl<'a> Record<'a> {
    fn new(r: &'a RecordResult) -> Self {
        Self {
            r,
            explained: !r.causes.iter().all(|c| matches!(c, Cause::Unexplained { .. })),
            divergence_words: r.divergence.as_ref().map(explain::divergence).unwrap_or_default(),
            bits_table: r.divergence.as_ref().and_then(|d| d.bits.as_ref()).map(bits::table).unwrap_or_default(),
            token_rows: r
                .causes
                .iter()
                .flat_map(|c| match c {
                    Cause::TokenSwapped { tokens, .. } => tokens.as_slice(),
                    _ => &[],
                })
                .collect(),
            alternatives: explain::alternatives(r),
            matrix: matrix(&r.matrix),
            growth: growth(&r.growth),
            margins: margins(&r.margins),
        }
    }

    /// Claims that are not matched, or that the reader must look at: shown in full.
    pub fn open_claims(&self) -> Vec<&'a ClaimResult> {
        self.r.claims.iter().filter(|c| c.verdict != Verdict::Match).collect()
    }

    /// The claims that hold, by name.
    pub fn held(&self) -> String {
        let names = self.r.claims.iter().filter(|c| c.verdict == Verdict::Match).map(|c| c.claim.name());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Identities that are not those at hand.
    pub fn foreign(&self) -> Vec<&'a IdentityField> {
        self.r.identity.iter().filter(|f| !f.agrees).collect()
    }

    /// How the hypotheses came out, in one line.
    pub fn trials(&self) -> String {
        let count = |outcome| self.r.tried.iter().filter(|t| t.outcome == outcome).count();
        let each = [Outcome::Explains, Outcome::Contradicted, Outcome::NotTried].map(|o| (count(o), o.words()));
        let parts = each.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}"));
        format!("Hypotheses tried by replay: {}", parts.collect::<Vec<_>>().join(", "))
    }

    pub fn needed(&self, index: &usize) -> Option<&'a str> {
        match self.r.causes.get(*index) {
            Some(Cause::Unexplained { needed, .. }) => Some(needed),
            _ => None,
        }
    }
}

fn matrix(m: &StepMatrix) -> String {
    let picture = svg::matrix(m);
    if picture.is_empty() {
        return String::new();
    }
    let steps = |row: &crate::result::MatrixRow, state| -> String {
        let set: Ranges = row.cells.iter().zip(0..).filter(|(c, _)| c.state == state).map(|(_, s)| s).collect();
        if set.is_empty() { "–".to_owned() } else { set.to_string() }
    };
    let any = |state| m.requests.iter().any(|r| r.cells.iter().any(|c| c.state == state));
    let columns: Vec<(&str, CellState)> = [
        ("Bits agree in steps", CellState::Match),
        ("Bits differ in steps", CellState::Mismatch),
        ("Token differs in steps", CellState::Token),
        ("Not compared", CellState::Unchecked),
    ]
    .into_iter()
    .filter(|(_, state)| *state == CellState::Match || any(*state))
    .collect();
    let mut out = format!(
        "<figure><figcaption>Requests by steps: filled where every compared bit agrees with the claim, crossed where one does \
         not.</figcaption><div class=\"scroll\">{picture}</div></figure><details><summary>The same in numbers</summary>\
         <div class=\"scroll\"><table><caption>Steps of each request.</caption><thead><tr><th scope=\"col\">Request</th>\
         <th scope=\"col\" class=\"n\">Rows</th>"
    );
    for (name, _) in &columns {
        let _ = write!(out, "<th scope=\"col\">{name}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for row in &m.requests {
        let rows: u64 = row.cells.iter().map(|c| u64::from(c.rows)).sum();
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td class=\"n\">{rows}</td>", svg::escape(&row.request));
        for (_, state) in &columns {
            let _ = write!(out, "<td>{}</td>", steps(row, *state));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></details>");
    out
}

fn growth(points: &[GrowthPoint]) -> String {
    let picture = svg::growth(points);
    if picture.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<figure><figcaption>How the difference grows: share of elements that differ at each compared output of the first row that \
         differs, by layer.</figcaption><div class=\"scroll\">{picture}</div></figure><details><summary>The same in numbers</summary>\
         <div class=\"scroll\"><table><caption>ulp: units in the last place.</caption><thead><tr><th scope=\"col\">Output</th>\
         <th scope=\"col\" class=\"n\">Elements that differ</th><th scope=\"col\" class=\"n\">Largest difference (ulp)</th></tr></thead><tbody>"
    );
    for p in points {
        let point = crate::ops::Point { layer: p.layer, op: p.op };
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{point}</th><td class=\"n\">{} of {}</td><td class=\"n\">{}</td></tr>",
            p.differing,
            p.elements,
            super::grouped(u64::from(p.max_ulp))
        );
    }
    out.push_str("</tbody></table></div></details>");
    out
}

fn margins(m: &Margins) -> String {
    let picture = svg::margins(m);
    if picture.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<details><summary>Margins of the sampled tokens</summary><figure><figcaption>Distance between the best and the second logit at {} \
         sampled positions, by power of two; {} exact {}. Small margins are where a token is easiest to steer.</figcaption><div \
         class=\"scroll\">{picture}</div></figure><div class=\"scroll\"><table><caption>The same in numbers.</caption><thead><tr>\
         <th scope=\"col\">Margin from</th><th scope=\"col\">to under</th><th scope=\"col\" class=\"n\">Positions</th></tr></thead><tbody>",
        m.positions,
        m.ties,
        if m.ties == 1 { "tie" } else { "ties" }
    );
    for bin in m.bins.iter().filter(|b| b.count > 0) {
        let _ = write!(
            out,
            "<tr><td>2<sup>{}</sup></td><td>2<sup>{}</sup></td><td class=\"n\">{}</td></tr>",
            bin.exponent,
            i64::from(bin.exponent) + 1,
            bin.count
        );
    }
    out.push_str("</tbody></table></div></details>");
    out
}

/// Identities of one or more records, with what of their statements was not checked.
pub(super) struct Identities<'a> {
    pub scope: String,
    pub fields: &'a [IdentityField],
    pub unverified: &'a [Unverified],
}

/// Identities of all records, equal ones shown once.
pub(super) fn identities(results: &[SignedResult]) -> Vec<Identities<'_>> {
    let mut groups: Vec<(Vec<String>, &RecordResult)> = Vec::new();
    for (audit, r) in results.iter().flat_map(|s| s.result.records.iter().map(move |r| (&s.result, r))) {
        if r.identity.is_empty() && r.unverified.is_empty() {
            continue;
        }
        let name = match audit.records.len() {
            1 => audit.subject.name.clone(),
            _ => format!("{} {}", audit.subject.name, r.name()),
        };
        let same =
            |(_, one): &&mut (Vec<String>, &RecordResult)| one.identity == r.identity && one.unverified == r.unverified;
        match groups.iter_mut().find(same) {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], r)),
        }
    }
    let shown = |names: Vec<String>| match names.as_slice() {
        [all @ .., last] if names.len() > 12 => {
            format!("{} and {} more, to {last}", all[..3].join(", "), all.len() - 3)
        }
        _ => names.join(", "),
    };
    groups
        .into_iter()
        .map(|(names, r)| Identities { scope: shown(names), fields: &r.identity, unverified: &r.unverified })
        .collect()
}

/// Channels by audit, equal lists shown once.
pub(super) fn channels(results: &[SignedResult]) -> Vec<Channels<'_>> {
    let mut groups: Vec<(Vec<&str>, &[Channel])> = Vec::new();
    for r in results.iter().filter(|r| !r.result.channels.is_empty()) {
        match groups.iter_mut().find(|(_, items)| *items == r.result.channels.as_slice()) {
            Some((names, _)) => names.push(&r.result.subject.name),
            None => groups.push((vec![&r.result.subject.name], &r.result.channels)),
        }
    }
    let alone = groups.len() == 1;
    groups
        .into_iter()
        .map(|(names, items)| Channels {
            scope: if alone { String::new() } else { format!("{}.", names.join("; ")) },
            items,
        })
        .collect()
}

/// Lines of several lists, each once, in the order of first appearance.
pub(super) fn union<'a>(lists: impl Iterator<Item = &'a [String]>) -> Vec<&'a str> {
    let mut out: Vec<&str> = Vec::new();
    for line in lists.flatten() {
        if !out.contains(&line.as_str()) {
            out.push(line);
        }
    }
    out
}
