//! Counters, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::batch::Finish;

/// A number that is read while it changes.
#[derive(Debug, Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many, and how long together.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    count: Number,
    micros: Number,
}

impl Spent {
    pub fn observe(&self, time: Duration) {
        self.count.add(1);
        self.micros.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}

/// What the service counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Answers, by first digit of their status, 1 to 5.
    pub answers: [Number; 6],
    /// Calls that were refused because the queue was full.
    pub refused_busy: Number,
    pub prompt_tokens: Number,
    pub generated_tokens: Number,
    pub finished_stop: Number,
    pub finished_length: Number,
    pub finished_cancelled: Number,
    pub rows: Number,
    pub records: Number,
    pub step_seconds: Spent,
    pub commit_seconds: Spent,
    pub running: Number,
    pub waiting: Number,
}

impl Metrics {
    pub fn finished(&self, finish: Finish) {
        match finish {
            Finish::Stop => &self.finished_stop,
            Finish::Length => &self.finished_length,
            Finish::Cancelled => &self.finished_cancelled,
        }
        .add(1);
    }

    /// All of it, in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, String)]| {
            // Writing to a string does not fail.
            let _ = writeln!(out, "# HELP lastbit_{name} {help}\n# TYPE lastbit_{name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(out, "lastbit_{name}{labels} {value}");
            }
        };
        let one = |n: &Number| vec![(String::new(), n.get().to_string())];
        let answers = self.answers.iter().enumerate().skip(1);
        let answers: Vec<_> =
            answers.map(|(class, n)| (format!("{{status=\"{class}xx\"}}"), n.get().to_string())).collect();
        family("http_responses_total", "counter", "HTTP responses.", &answers);
        family("busy_total", "counter", "Calls refused because the queue was full.", &one(&self.refused_busy));
        let ends =
            [("stop", &self.finished_stop), ("length", &self.finished_length), ("cancelled", &self.finished_cancelled)];
        let ends = ends.map(|(why, n)| (format!("{{finish=\"{why}\"}}"), n.get().to_string()));
        family("requests_ended_total", "counter", "Choices that ended.", &ends);
        family("prompt_tokens_total", "counter", "Prompt tokens accepted.", &one(&self.prompt_tokens));
        family("generated_tokens_total", "counter", "Tokens chosen.", &one(&self.generated_tokens));
        family("rows_total", "counter", "Rows computed.", &one(&self.rows));
        family("records_total", "counter", "Records acknowledged.", &one(&self.records));
        family("requests_running", "gauge", "Choices in the cache.", &one(&self.running));
        family("requests_waiting", "gauge", "Choices that wait for room.", &one(&self.waiting));
        for (name, help, spent) in [
            ("step_seconds", "Time of engine steps.", &self.step_seconds),
            ("commit_seconds", "Time of putting records on disk.", &self.commit_seconds),
        ] {
            let (whole, part) = (spent.micros.get() / 1_000_000, spent.micros.get() % 1_000_000);
            let _ = writeln!(
                out,
                "# HELP lastbit_{name} {help}\n# TYPE lastbit_{name} summary\nlastbit_{name}_sum {whole}.{part:06}\n\
                 lastbit_{name}_count {}",
                spent.count.get()
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_typed_and_every_sample_is_a_number() {
        let metrics = Metrics::default();
        metrics.finished(Finish::Length);
        metrics.step_seconds.observe(Duration::from_micros(1_000_007));
        metrics.answers[4].add(2);
        let text = metrics.text();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let family = name.split('{').next().unwrap().trim_end_matches("_sum").trim_end_matches("_count");
            assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
        }
        assert!(text.contains("lastbit_requests_ended_total{finish=\"length\"} 1"));
        assert!(text.contains("lastbit_step_seconds_sum 1.000007"));
        assert!(text.contains("lastbit_http_responses_total{status=\"4xx\"} 2"));
    }
}
