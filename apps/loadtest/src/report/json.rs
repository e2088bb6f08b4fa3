//! The results as JSON for programs.

use serde_json::{Map, Value, json};

use super::scenario_report::ScenarioReport;

/// Returns the results as one object, with a line end.
pub(crate) fn render(report: &ScenarioReport) -> String {
    let parameters: Map<String, Value> =
        report.parameters.iter().map(|(name, value)| ((*name).into(), json!(value))).collect();
    let figures: Map<String, Value> =
        report.all_figures().map(|figure| (figure.key.into(), json!(figure.value))).collect();
    let series: Map<String, Value> =
        report.series.iter().map(|series| (series.key.into(), json!(series.points))).collect();
    let value = json!({
        "scenario": report.scenario,
        "parameters": parameters,
        "figures": figures,
        "latency_ns": report.latency.points,
        "series": series,
        "failures": report.failures,
        "interrupted": report.is_interrupted,
    });
    format!("{value:#}\n")
}
