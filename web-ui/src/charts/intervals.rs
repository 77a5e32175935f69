//! An estimate with its 95 % interval, small enough for a table cell.

/// A dot and whiskers between 0 and the largest end given; nothing for texts that are no numbers.
pub(crate) fn interval(texts: &[String; 3], most: f64) -> String {
    let parsed: Vec<f64> = texts.iter().filter_map(|t| t.parse().ok()).collect();
    let [at, low, high] = parsed.as_slice() else { return String::new() };
    if !(most > 0.0 && low.is_finite() && high.is_finite()) {
        return String::new();
    }
    let x = |v: f64| 4.0 + 112.0 * (v / most).clamp(0.0, 1.0);
    format!(
        r#"<svg viewBox="0 0 120 14" width="120" height="14" aria-hidden="true" focusable="false"><path class="grid" d="M4 7H116"/><path class="whisker" d="M{:.1} 7H{:.1}"/><circle class="dot" cx="{:.1}" cy="7" r="3.5"/></svg>"#,
        x(*low),
        x(*high),
        x(*at)
    )
}
