//! The results of a scenario: as a table, as JSON, and as a plot.

pub(crate) mod figure;
pub(crate) mod json;
pub(crate) mod latency;
pub(crate) mod plot;
pub(crate) mod scenario_report;
pub(crate) mod table;
