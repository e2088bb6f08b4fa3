//! `ScenarioReport`: everything that a scenario found out.

use super::figure::{Figure, FigureUnit};
use super::latency::LatencyCurve;

/// The results of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScenarioReport {
    pub(crate) scenario: &'static str,
    /// Names and values of the options.
    pub(crate) parameters: Vec<(&'static str, String)>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) latency: LatencyCurve,
    pub(crate) series: Vec<TimeSeries>,
    /// Broken promises, with their counts; empty if all was well.
    pub(crate) failures: Vec<String>,
    /// True if the scenario was stopped by a signal.
    pub(crate) is_interrupted: bool,
}

/// A value over the time of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct TimeSeries {
    /// The name in JSON.
    pub(crate) key: &'static str,
    /// The title of the plot, with the unit.
    pub(crate) title: &'static str,
    /// Seconds and values.
    pub(crate) points: Vec<(f64, f64)>,
}

impl ScenarioReport {
    /// Returns a report without results.
    pub(crate) fn new(scenario: &'static str) -> Self {
        Self { scenario, ..Self::default() }
    }

    /// Adds an option of the scenario.
    pub(crate) fn parameter(&mut self, name: &'static str, value: impl ToString) {
        self.parameters.push((name, value.to_string()));
    }

    /// Adds a figure.
    pub(crate) fn figure(
        &mut self,
        key: &'static str,
        label: &'static str,
        value: f64,
        unit: FigureUnit,
    ) {
        self.figures.push(Figure { key, label, value, unit });
    }

    /// Adds a count.
    pub(crate) fn count(&mut self, key: &'static str, label: &'static str, value: u64) {
        self.figure(key, label, value as f64, FigureUnit::Count);
    }

    /// Notes a failure if the count of what must not happen is not zero.
    pub(crate) fn must_be_zero(&mut self, what: &str, value: u64) {
        if value != 0 {
            self.failures.push(format!("{what}: {value}"));
        }
    }

    /// Iterates over all figures, those of the latency at the end.
    pub(crate) fn all_figures(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().chain(self.latency.figures())
    }
}
