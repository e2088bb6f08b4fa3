//! The account of publications: sent, accepted, received, lost.

pub(crate) mod ledger;
pub(crate) mod meter;
pub(crate) mod number_ranges;
pub(crate) mod tracker;
