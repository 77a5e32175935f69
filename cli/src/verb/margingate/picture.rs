//! Cost against trigger rate, as a picture.

use std::fmt::Write as _;

use margingate::cost::Fit;

use super::bench::CostRow;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 20.0;
const RIGHT: f64 = 190.0;

/// Points of the injection sweep, the line through them, and the other ways of serving by name.
pub fn cost(ways: &[CostRow], fit: Option<Fit>) -> String {
    let highest = ways.iter().map(|w| w.cpu_increment).fold(0.1, f64::max) * 1.1;
    let x = |p: f64| LEFT + p * (WIDTH - LEFT - RIGHT);
    let y = |c: f64| HEIGHT - BOTTOM - c.clamp(0.0, highest) / highest * (HEIGHT - BOTTOM - TOP);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut line = |text: std::fmt::Arguments<'_>| {
        let _ = out.write_fmt(text);
        out.push('\n');
    };
    line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Processor time over plain throughput, by share of rows verified</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>"
    ));
    for tick in 0..=4 {
        let share = f64::from(tick) / 4.0;
        let (at, up) = (x(share), y(share * highest));
        line(format_args!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} %</text>",
            HEIGHT - 30.0,
            share * 100.0
        ));
        line(format_args!(
            "<text x=\"{:.1}\" y=\"{up:.1}\" text-anchor=\"end\">+{:.0} %</text>",
            LEFT - 8.0,
            share * highest * 100.0
        ));
        line(format_args!("<line x1=\"{LEFT}\" y1=\"{up:.1}\" x2=\"{:.1}\" y2=\"{up:.1}\" stroke=\"#ddd\"/>", x(1.0)));
    }
    line(format_args!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">rows verified</text>",
        x(0.5),
        HEIGHT - 10.0
    ));
    if let Some(f) = fit {
        let (a, b) = (y(f.fixed), y(f.fixed + f.full));
        line(format_args!(
            "<line x1=\"{:.1}\" y1=\"{a:.1}\" x2=\"{:.1}\" y2=\"{b:.1}\" stroke=\"#36c\" stroke-dasharray=\"4 3\"/>",
            x(0.0),
            x(1.0)
        ));
    }
    for way in ways.iter().filter(|w| w.injected) {
        line(format_args!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#36c\"/>",
            x(way.verified),
            y(way.cpu_increment)
        ));
    }
    for way in ways.iter().filter(|w| !w.injected) {
        let (at, up) = (x(way.verified), y(way.cpu_increment));
        line(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"#c33\"/>",
            at - 4.0,
            up - 4.0
        ));
        line(format_args!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", at + 8.0, up + 4.0, way.way));
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_in_the_picture() {
        let row = |way: &str, verified, injected| CostRow {
            way: way.into(),
            verified,
            cpu_increment: 0.5,
            wall_increment: 0.5,
            equal: 1,
            injected,
        };
        let svg = cost(&[row("plain", 0.0, false), row("p", 0.5, true)], Some(Fit { fixed: 0.1, full: 1.0 }));
        assert_eq!((svg.matches("<circle").count(), svg.matches("<rect").count()), (1, 2));
        assert!(svg.contains(">plain<") && svg.contains("stroke-dasharray") && !svg.contains("NaN"));
    }
}
