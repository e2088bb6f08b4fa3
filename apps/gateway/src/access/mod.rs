//! Permission to connect, subscribe and publish: tokens, permissions and limits of rate.

pub mod identity;
