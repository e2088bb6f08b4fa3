//! Randomized tests of channels and pipelines: random actions from anywhere, and random programs against a
//! model.

mod actions;
mod pipeline_model;
