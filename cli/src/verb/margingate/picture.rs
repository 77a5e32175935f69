//! Cost against trigger rate, and trigger rates against misses, as pictures.

use std::fmt::{Arguments, Write as _};

use super::report::Cost;
use super::study::Study;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 20.0;
const RIGHT: f64 = 250.0;
const COLOURS: [&str; 8] = ["#36c", "#c33", "#393", "#c80", "#83a", "#088", "#850", "#555"];

/// A picture that is being drawn: a plot from 0 to `right` and from 0 to `highest`.
struct Plot {
    text: String,
    right: f64,
    highest: f64,
}

impl Plot {
    /// Axes with five ticks each, in percent of what `horizontal` and `vertical` say.
    fn new(title: &str, horizontal: &str, (right, highest): (f64, f64)) -> Self {
        let mut p = Self { text: String::new(), right, highest };
        p.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>"
        ));
        for tick in 0..=4 {
            let share = f64::from(tick) / 4.0;
            let (x, y) = (p.x(share * right), p.y(share * highest));
            let (below, label) = (HEIGHT - 30.0, percent(share * right));
            p.line(format_args!("<text x=\"{x:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{label}</text>"));
            let (before, label) = (LEFT - 8.0, percent(share * highest));
            p.line(format_args!("<text x=\"{before:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>"));
            let end = p.x(right);
            p.line(format_args!("<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"));
        }
        let (middle, below) = (p.x(right / 2.0), HEIGHT - 10.0);
        p.line(format_args!("<text x=\"{middle:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{horizontal}</text>"));
        p
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + value.clamp(0.0, self.right) / self.right * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value.clamp(0.0, self.highest) / self.highest * (HEIGHT - BOTTOM - TOP)
    }

    fn line(&mut self, text: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(text);
        self.text.push('\n');
    }

    fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        let (x, y) = (self.x(x), self.y(y));
        self.line(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"));
    }

    fn path(&mut self, points: &[(f64, f64)], colour: &str, dashes: &str) {
        let at: Vec<String> = points.iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
        let at = at.join(" ");
        self.line(format_args!("<polyline points=\"{at}\" fill=\"none\" stroke=\"{colour}\"{dashes}/>"));
    }

    /// A line of the legend, counted from the top.
    fn legend(&mut self, at: usize, colour: &str, words: &str) {
        let (x, y) = (WIDTH - RIGHT + 24.0, TOP + 10.0 + 18.0 * at as f64);
        let box_y = y - 9.0;
        self.line(format_args!("<rect x=\"{x:.1}\" y=\"{box_y:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>"));
        let x = x + 16.0;
        self.line(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"));
    }

    fn end(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

fn percent(share: f64) -> String {
    if share < 0.1 && share > 0.0 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// Processor time over plain by share of rows verified: the injection sweeps with their lines, and the other ways of serving by name.
pub fn cost(cost: &Cost) -> String {
    let rows = || cost.ways.iter().chain(cost.sweeps.iter().flat_map(|s| &s.points));
    let highest = rows().filter_map(|w| w.cpu_increment).fold(0.1, f64::max) * 1.1;
    let mut p =
        Plot::new("Processor time over plain throughput, by share of rows verified", "rows verified", (1.0, highest));
    let mut at = 0;
    for sweep in &cost.sweeps {
        let colour = COLOURS[at % COLOURS.len()];
        if let Some(l) = sweep.cpu {
            p.path(&[(0.0, l.fixed), (1.0, l.fixed + l.full)], colour, " stroke-dasharray=\"4 3\"");
        }
        for (x, y) in sweep.points.iter().filter_map(|w| Some((w.verified, w.cpu_increment?))) {
            p.dot((x, y), colour);
        }
        p.legend(at, colour, &format!("injected mismatches, {}", sweep.write_back));
        at += 1;
    }
    for way in &cost.ways {
        let Some(increment) = way.cpu_increment else { continue };
        let colour = COLOURS[at % COLOURS.len()];
        let (x, y) = (p.x(way.verified) - 4.0, p.y(increment) - 4.0);
        p.line(format_args!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"8\" height=\"8\" fill=\"{colour}\"/>"));
        p.legend(at, colour, &way.way);
        at += 1;
    }
    p.end()
}

/// Trigger rate by share of flips that are missed, a curve a signal.
pub fn curves(study: &Study) -> String {
    let flips = study.compared_on[1].max(1) as f64;
    let most = study.signals.iter().map(|s| s.curve.len()).max().unwrap_or(0).saturating_sub(1).max(1);
    let highest = study.signals.iter().flat_map(|s| &s.curve).fold(1e-6, |a: f64, b| a.max(*b)) * 1.05;
    let mut p = Plot::new("Trigger rate by share of flips missed", "flips missed", (most as f64 / flips, highest));
    for (at, signal) in study.signals.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points: Vec<(f64, f64)> =
            signal.curve.iter().enumerate().map(|(misses, rate)| (misses as f64 / flips, *rate)).collect();
        p.path(&points, colour, "");
        p.legend(at, colour, &signal.signal);
    }
    p.end()
}

#[cfg(test)]
mod tests {
    use super::super::cost::Run;
    use super::super::report::{Sweep, WayRow};
    use super::*;
    use margingate::margin::Margin;
    use margingate::trace::Observed;

    #[test]
    fn every_way_is_in_the_picture() {
        let row = |way: &str, judged, verified, cpu| {
            let config = engine::model::embedded().unwrap().config;
            let plain = Run { cpu: 1.0, ..Run::default() };
            WayRow::measured(way.into(), &Run { cpu, judged, verified, ..Run::default() }, &plain, &config)
        };
        let points = vec![row("p", 100, 0, 1.1), row("p", 100, 19, 1.3), row("p", 100, 100, 2.1)];
        let sweeps = vec![Sweep::of("mismatch", points, 0.1856)];
        let line = sweeps[0].cpu.unwrap();
        assert!((line.fixed - 0.1).abs() < 0.02 && (line.full - 1.0).abs() < 0.02);
        assert!(line.advantage_measured.is_some_and(|a| (a - 1.1 / 0.3).abs() < 1e-9));
        assert!(sweeps[0].work.is_none(), "nothing was counted: {:?}", sweeps[0].work.map(|l| l.full));
        let svg = cost(&Cost { sequences: 4, rounds: 1, ways: vec![row("plain", 0, 0, 1.0)], sweeps });
        assert_eq!((svg.matches("<circle").count(), svg.matches(">plain<").count()), (3, 1));
        assert!(svg.contains("stroke-dasharray") && !svg.contains("NaN"));
    }

    #[test]
    fn every_signal_has_its_curve() {
        let step = |i: u32| Observed {
            source: i % 2,
            sequence: i,
            schedule: 0,
            position: i,
            rows: 4,
            kv: 9,
            dirty: 1,
            reference: false,
            top: [0, 1],
            margin: Margin::new(i as f32 / 100.0),
            delta: 0.1,
            distance: 1.0,
            flip: i % 10 < 2,
        };
        let study = super::super::study::study(&(0..200).map(step).collect::<Vec<_>>(), 0, 0.25);
        let svg = curves(&study);
        assert_eq!(svg.matches("<polyline").count(), study.signals.len());
        assert!(!svg.contains("NaN"));
    }
}
