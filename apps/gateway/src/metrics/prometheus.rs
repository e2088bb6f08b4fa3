//! The text format of Prometheus, version 0.0.4: families with HELP and TYPE, and their samples.

use std::fmt::{Display, Write};
use std::time::Duration;

/// The value of the field Content-Type of `/metrics`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyType {
    /// A number that only grows, until the process ends.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Counts by upper bounds.
    Histogram,
}

/// The names and values of labels.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// A text in the format of Prometheus.
#[derive(Debug, Default)]
pub struct PrometheusText {
    text: String,
}

/// A family whose samples are added. Its name is in their beginning.
#[derive(Debug)]
pub struct MetricFamily<'a> {
    text: &'a mut String,
    name: &'static str,
}

/// A histogram: counts by upper bound in seconds, not accumulated, and the sum of all values.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramFigures {
    /// The buckets, by growing bounds.
    pub buckets: Vec<(f64, u64)>,
    /// The count beyond the last bound.
    pub beyond: u64,
    /// The sum of the values.
    pub sum: Duration,
}

impl PrometheusText {
    /// Begins a family. `help` is a phrase on one line.
    pub fn family(
        &mut self,
        name: &'static str,
        family_type: FamilyType,
        help: &'static str,
    ) -> MetricFamily<'_> {
        debug_assert_eq!(name.ends_with("_total"), family_type == FamilyType::Counter, "{name}");
        let type_name = match family_type {
            FamilyType::Counter => "counter",
            FamilyType::Gauge => "gauge",
            FamilyType::Histogram => "histogram",
        };
        let text = &mut self.text;
        text.extend(["# HELP ", name, " "]);
        escape(text, help, false);
        text.extend(["\n# TYPE ", name, " ", type_name, "\n"]);
        MetricFamily { text, name }
    }

    /// Returns the text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

impl MetricFamily<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        self.line("", labels, None, &value);
        self
    }

    /// Adds a sample of a time, in seconds.
    pub fn seconds(&mut self, labels: Labels<'_>, value: Duration) -> &mut Self {
        self.sample(labels, value.as_secs_f64())
    }

    /// Adds the samples of a histogram.
    pub fn histogram(&mut self, labels: Labels<'_>, figures: &HistogramFigures) -> &mut Self {
        let mut count = 0;
        for (bound, in_bucket) in &figures.buckets {
            count += in_bucket;
            self.line("_bucket", labels, Some(&bound.to_string()), &count);
        }
        count += figures.beyond;
        self.line("_bucket", labels, Some("+Inf"), &count);
        self.line("_sum", labels, None, &figures.sum.as_secs_f64());
        self.line("_count", labels, None, &count);
        self
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: &dyn Display) {
        self.text.extend([self.name, suffix]);
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in labels {
            self.text.push(separator);
            self.text.extend([name, "=\""]);
            escape(self.text, value, true);
            self.text.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        let written = writeln!(self.text, " {value}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }
}

/// Escapes a text as the format has it: backslash and line end, in values of labels also quotes.
fn escape(out: &mut String, text: &str, is_label: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if is_label => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g05_samples_have_their_family_and_escaped_labels() {
        let mut text = PrometheusText::default();
        text.family("a_total", FamilyType::Counter, "Back\\slash and \"quotes\"\nand lines")
            .sample(&[], 1u64)
            .sample(&[("loop", "a\"b\\c\nd"), ("kind", "ä")], u64::MAX);
        text.family("b_seconds", FamilyType::Gauge, "B").seconds(&[], Duration::from_micros(1500));
        let expected = "\
# HELP a_total Back\\\\slash and \"quotes\"\\nand lines
# TYPE a_total counter
a_total 1
a_total{loop=\"a\\\"b\\\\c\\nd\",kind=\"ä\"} 18446744073709551615
# HELP b_seconds B
# TYPE b_seconds gauge
b_seconds 0.0015
";
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn g05_a_histogram_is_accumulated_and_ends_with_infinity() {
        let mut text = PrometheusText::default();
        let buckets = vec![(0.001, 2), (0.5, 3)];
        let figures = HistogramFigures { buckets, beyond: 1, sum: Duration::from_millis(2500) };
        text.family("h", FamilyType::Histogram, "H").histogram(&[("loop", "1")], &figures);
        let expected = "\
# HELP h H
# TYPE h histogram
h_bucket{loop=\"1\",le=\"0.001\"} 2
h_bucket{loop=\"1\",le=\"0.5\"} 5
h_bucket{loop=\"1\",le=\"+Inf\"} 6
h_sum{loop=\"1\"} 2.5
h_count{loop=\"1\"} 6
";
        assert_eq!(text.into_text(), expected);
    }
}
