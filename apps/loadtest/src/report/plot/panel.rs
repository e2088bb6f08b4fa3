//! A line over two axes.

use std::fmt::Write;

use super::ticks::round_ticks;
use super::{PANEL_HEIGHT, WIDTH, escape};
use crate::report::figure::{shown_time, with_separators};

/// Room for the labels beside, above and below the line.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 36.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 34.0;

/// A part of the plot.
pub(super) struct Panel<'a> {
    pub(super) title: &'a str,
    pub(super) horizontal: HorizontalAxis,
    pub(super) vertical: VerticalAxis,
    /// At least two, ascending.
    pub(super) points: Vec<(f64, f64)>,
}

/// The meaning of a point's place from left to right.
pub(super) enum HorizontalAxis {
    Seconds,
    /// Zeros of the distance to 100 %: 1 is 90 %, 2 is 99 %.
    Percentiles,
}

/// The meaning of a point's height. Both begin at zero.
pub(super) enum VerticalAxis {
    Count,
    Nanos,
}

impl Panel<'_> {
    /// Writes the panel, this far below the upper edge.
    pub(super) fn write(&self, out: &mut String, offset: u32) {
        let (width, height) = (f64::from(WIDTH), f64::from(PANEL_HEIGHT));
        let top = f64::from(offset) + TOP;
        let bottom = f64::from(offset) + height - BOTTOM;
        let rows = self.rows();
        let columns = self.columns();
        let (lowest, highest) = (0.0, rows.last().map_or(1.0, |(value, _)| *value));
        let first = self.points.first().map_or(0.0, |point| point.0.min(columns[0].0));
        let last = self.points.last().map_or(1.0, |point| point.0);
        let x = |value: f64| LEFT + (value - first) / (last - first) * (width - LEFT - RIGHT);
        let y = |value: f64| bottom - (value - lowest) / (highest - lowest) * (bottom - top);
        let _ = writeln!(
            out,
            "<text class=\"title\" x=\"{LEFT}\" y=\"{:.0}\">{}</text>",
            top - 14.0,
            escape(self.title)
        );
        for (value, label) in &rows {
            let (at, right) = (y(*value), width - RIGHT);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        for (value, label) in columns.iter().filter(|(value, _)| *value <= last) {
            let (at, below) = (x(*value), bottom + 18.0);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
                 <text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{label}</text>"
            );
        }
        let points = self.points.iter();
        let points: Vec<_> =
            points.map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
        let _ = writeln!(out, "<polyline class=\"line\" points=\"{}\"/>", points.join(" "));
    }

    /// Returns the values and labels of the horizontal lines.
    fn rows(&self) -> Vec<(f64, String)> {
        let max = self.points.iter().map(|point| point.1).fold(0.0, f64::max);
        let label = |value: f64| match self.vertical {
            _ if value == 0.0 => String::from("0"),
            VerticalAxis::Count if max < 8.0 => format!("{value:.1}"),
            VerticalAxis::Count => with_separators(value),
            VerticalAxis::Nanos => shown_time(value),
        };
        round_ticks(max).into_iter().map(|value| (value, label(value))).collect()
    }

    /// Returns the values and labels of the vertical lines.
    fn columns(&self) -> Vec<(f64, String)> {
        let last = self.points.last().map_or(1.0, |point| point.0);
        match self.horizontal {
            HorizontalAxis::Seconds => {
                let ticks = round_ticks(last).into_iter();
                ticks.map(|value| (value, format!("{} s", short(value)))).collect()
            }
            HorizontalAxis::Percentiles => {
                let label = |zeros: u32| {
                    let decimals = zeros.saturating_sub(2) as usize;
                    let percent = 100.0 - 10_f64.powf(2.0 - f64::from(zeros));
                    format!("{percent:.decimals$} %")
                };
                (0..=last as u32).map(|zeros| (f64::from(zeros), label(zeros))).collect()
            }
        }
    }
}

/// Returns a number without decimals that say nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
