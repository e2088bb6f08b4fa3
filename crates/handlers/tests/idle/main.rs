//! The idle handler, on a clock that moves when it is told to.

mod bench;

mod closing;
mod life;
mod limits;
mod offloaded;
mod properties;
mod reads;
mod writes;
