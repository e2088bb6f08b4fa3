//! The results as a plot in SVG: percentiles of the latency, and what changed over time. Readable on light and dark pages.

mod panel;
mod ticks;

use std::fmt::Write;

use self::panel::{HorizontalAxis, Panel, VerticalAxis};
use super::scenario_report::ScenarioReport;

/// Width of the picture, in its own units.
const WIDTH: u32 = 720;

/// Height of a panel.
const PANEL_HEIGHT: u32 = 250;

/// The colours: dark on light, or light on dark if the reader prefers that. The background is that of the page.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#24292f}\
.title{font-size:14px;font-weight:600}\
.grid{stroke:#d0d7de;stroke-width:1}\
.line{fill:none;stroke:#0969da;stroke-width:2;stroke-linejoin:round}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}.line{stroke:#58a6ff}}";

/// Returns the plot; `None` if there is nothing to plot.
pub(crate) fn render(report: &ScenarioReport) -> Option<String> {
    let mut panels = Vec::new();
    if report.latency.points.len() > 1 {
        // The distance of the share to 100 %, so that 90, 99 and 99.9 % are equally far apart.
        let point = |(share, nanos): &(f64, u64)| (-(1.0 - share).log10(), *nanos as f64);
        panels.push(Panel {
            title: "publish to receive, by percentile",
            horizontal: HorizontalAxis::Percentiles,
            vertical: VerticalAxis::Nanos,
            points: report.latency.points.iter().map(point).collect(),
        });
    }
    for series in report.series.iter().filter(|series| series.points.len() > 1) {
        panels.push(Panel {
            title: series.title,
            horizontal: HorizontalAxis::Seconds,
            vertical: VerticalAxis::Count,
            points: series.points.clone(),
        });
    }
    if panels.is_empty() {
        return None;
    }
    let height = PANEL_HEIGHT * panels.len() as u32;
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n",
        escape(&summary(report))
    );
    for (at, panel) in panels.iter().enumerate() {
        panel.write(&mut out, at as u32 * PANEL_HEIGHT);
    }
    out.push_str("</svg>\n");
    Some(out)
}

/// Returns the results in a sentence, for readers that do not see the plot.
fn summary(report: &ScenarioReport) -> String {
    let figures: Vec<_> =
        report.all_figures().map(|figure| format!("{} {figure}", figure.label)).collect();
    format!("{}: {}", report.scenario, figures.join(", "))
}

/// Returns the text as the content of an element.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::report::latency::LatencyCurve;
    use crate::report::scenario_report::TimeSeries;

    fn report() -> ScenarioReport {
        let mut times = Histogram::<u64>::new(3).unwrap();
        (1..=10_000_u64).for_each(|time| times.record(time * 1_000).unwrap());
        let mut report = ScenarioReport::new("fanout");
        report.latency = LatencyCurve::of(&times);
        let points = (0..20).map(|at| (f64::from(at), 1_000.0 + f64::from(at))).collect();
        report.series = vec![TimeSeries { key: "rate", title: "received < sent & more", points }];
        report
    }

    /// Returns the points of the lines of a plot.
    fn lines(svg: &str) -> Vec<Vec<(f64, f64)>> {
        let after = svg.split("class=\"line\" points=\"").skip(1);
        let points = after.map(|rest| rest.split('"').next().unwrap());
        let point = |pair: &str| {
            let (x, y) = pair.split_once(',').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        points.map(|points| points.split(' ').map(point).collect()).collect()
    }

    #[test]
    fn g09_the_plot_has_a_panel_for_percentiles_and_for_each_series() {
        let svg = render(&report()).unwrap();
        let lines = lines(&svg);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1].len(), 20);
        for (x, y) in lines.iter().flatten() {
            assert!((0.0..=f64::from(WIDTH)).contains(x), "{x}");
            assert!((0.0..=f64::from(2 * PANEL_HEIGHT)).contains(y), "{y}");
        }
        // Later is further right, slower is higher up.
        assert!(lines[0].is_sorted_by(|a, b| a.0 < b.0 && a.1 >= b.1), "{:?}", lines[0]);
        for label in ["99 %", "99.9 %", "10.0 ms", "received &lt; sent &amp; more"] {
            assert!(svg.contains(label), "{label} in {svg}");
        }
    }

    #[test]
    fn g09_the_plot_is_readable_on_light_and_dark_pages() {
        let svg = render(&report()).unwrap();
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(!svg.contains("<rect"), "the background is that of the page");
        assert!(svg.contains("role=\"img\"") && svg.contains("p99 9.90 ms"), "{svg}");
    }

    #[test]
    fn g09_without_results_there_is_no_plot() {
        assert_eq!(render(&ScenarioReport::new("fanout")), None);
    }
}
