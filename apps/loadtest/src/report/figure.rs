//! `Figure`: a number with its name and unit.

use std::fmt;

/// A result of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// The name in JSON, with the unit.
    pub(crate) key: &'static str,
    /// The text in the table.
    pub(crate) label: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: FigureUnit,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FigureUnit {
    Count,
    PerSecond,
    Seconds,
    KiB,
    /// Percent of one core, or of another figure.
    Percent,
    /// Nanoseconds; shown in the unit that fits.
    Nanos,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.unit {
            FigureUnit::Count => f.write_str(&with_separators(value)),
            FigureUnit::PerSecond => write!(f, "{}/s", with_separators(value)),
            FigureUnit::Seconds => write!(f, "{value:.2} s"),
            FigureUnit::KiB if value.abs() < 100.0 => write!(f, "{value:.1} KiB"),
            FigureUnit::KiB => write!(f, "{} KiB", with_separators(value)),
            FigureUnit::Percent => write!(f, "{value:.1} %"),
            FigureUnit::Nanos => f.write_str(&shown_time(value)),
        }
    }
}

/// Returns a whole number with commas between thousands.
pub(crate) fn with_separators(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut shown = String::with_capacity(digits.len() + 8);
    if value <= -0.5 {
        shown.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Returns a time in ns, µs, ms or s, with three digits.
pub(crate) fn shown_time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        _ if nanos < 999.5 => (nanos, "ns"),
        _ if nanos < 999_500.0 => (nanos / 1e3, "µs"),
        _ if nanos < 999_500_000.0 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_figures_are_shown_with_their_units() {
        let shown = |value, unit| Figure { key: "", label: "", value, unit }.to_string();
        assert_eq!(shown(1_234_567.0, FigureUnit::Count), "1,234,567");
        assert_eq!(shown(999.6, FigureUnit::PerSecond), "1,000/s");
        assert_eq!(shown(-1_000.0, FigureUnit::Count), "-1,000");
        assert_eq!(shown(9.876, FigureUnit::KiB), "9.9 KiB");
        assert_eq!(shown(20_480.0, FigureUnit::KiB), "20,480 KiB");
        assert_eq!(shown(0.25, FigureUnit::Percent), "0.2 %");
        for (nanos, text) in [
            (12.34, "12.3 ns"),
            (1_234.0, "1.23 µs"),
            (56_700.0, "56.7 µs"),
            (999_900.0, "1.00 ms"),
            (123_400_000.0, "123 ms"),
            (2_500_000_000.0, "2.50 s"),
        ] {
            assert_eq!(shown(nanos, FigureUnit::Nanos), text);
        }
    }
}
