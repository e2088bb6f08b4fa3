//! hyper on loops, over a network in memory and on a virtual clock.

mod clients;
mod ending;
mod http_bench;
mod servers;
