//! Stock handlers together: random pipelines, random actions, virtual time, checked against a model of the bytes.

mod actions;
mod model;
mod pipelines;
mod random;
