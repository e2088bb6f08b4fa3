//! Traffic shaping on a virtual clock.

mod support;

mod closing;
mod drain;
mod groups;
mod limits;
mod many_channels;
mod properties;
mod reads;
mod removal;
mod writes;
