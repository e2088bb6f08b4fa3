//! The idle handler on a virtual clock.

mod support;

mod closing;
mod life;
mod limits;
mod offloaded;
mod properties;
mod reads;
mod writes;
