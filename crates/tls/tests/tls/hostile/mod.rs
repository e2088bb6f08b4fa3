//! T08, and the hostile side of T02 and T05: peers that speak something else, lie, flood, stop in the middle, or do not
//! read. Every failure has to end in the same way: one error that names its reason, the alert where the protocol has one,
//! a closed channel, nothing held ([`attacker::take_failure`]).

mod attacker;
mod before_keys;
mod closing;
mod handshake_order;
mod operations;
mod whole_session;
mod with_keys;
