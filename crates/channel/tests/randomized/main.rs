//! Random programs over channels and pipelines.

mod actions;
mod pipeline_model;
