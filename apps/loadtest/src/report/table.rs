//! The results as a table for people.

use std::fmt::Write;

use super::scenario_report::ScenarioReport;

/// Returns the table, with a line end.
pub(crate) fn render(report: &ScenarioReport) -> String {
    let mut out = String::new();
    let parameters: Vec<_> =
        report.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let _ = writeln!(out, "{}: {}", report.scenario, parameters.join(", "));
    let rows: Vec<_> =
        report.all_figures().map(|figure| (figure.label, figure.to_string())).collect();
    let width = |texts: &mut dyn Iterator<Item = &str>| {
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let labels = width(&mut rows.iter().map(|(label, _)| *label));
    let values = width(&mut rows.iter().map(|(_, value)| value.as_str()));
    for (label, value) in &rows {
        let _ = writeln!(out, "  {label:<labels$}  {value:>values$}");
    }
    if report.is_interrupted {
        let _ = writeln!(out, "  interrupted: the figures are of a part of the run");
    }
    for failure in &report.failures {
        let _ = writeln!(out, "  FAILED  {failure}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figure::FigureUnit;

    #[test]
    fn g09_a_table_has_a_line_for_each_figure_and_failure() {
        let mut report = ScenarioReport::new("fanout");
        report.parameter("subscribers", 10);
        report.count("received", "received", 12_345);
        report.figure("cpu_percent", "CPU of the gateway", 99.5, FigureUnit::Percent);
        report.must_be_zero("lost publications", 3);
        report.must_be_zero("duplicates", 0);
        let expected = "fanout: subscribers 10\n  \
                        received            12,345\n  \
                        CPU of the gateway  99.5 %\n  \
                        FAILED  lost publications: 3\n";
        assert_eq!(render(&report), expected);
    }
}
