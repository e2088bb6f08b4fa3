//! The pipeline's contract, clause by clause, on the embedded channel: what happens, in which order.
//!
//! Every test asserts the whole order, as the lines that recording handlers wrote.

mod support;

mod cancelling;
mod codecs;
mod deferring;
mod depth;
mod editing;
mod errors;
mod flushing;
mod interest;
mod last_write;
mod life;
mod loop_events;
mod odd_messages;
mod operations;
mod panics;
mod pausing;
mod reads;
mod removing;
mod stack;
mod timers;
mod types;
mod water_marks;
mod writes;
