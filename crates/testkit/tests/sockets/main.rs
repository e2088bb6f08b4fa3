//! Channels that are bound and connected, over drivers by hand and on a clock that moves when told.

mod accepting;
mod bootstraps;
mod connecting;
mod house;
