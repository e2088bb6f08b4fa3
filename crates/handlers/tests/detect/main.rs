//! Protocol detection: the stock probes, and the handler on a virtual clock.

mod support;

mod behind_header;
mod choice;
mod ending;
mod failures;
mod handing_over;
mod limits;
mod offloaded;
mod properties;
mod stock_probes;
