//! The wire log on embedded channels.

mod support;

mod events;
mod limits;
mod lines;
