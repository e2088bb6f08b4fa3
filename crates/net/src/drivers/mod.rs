//! Drivers: epoll(7) and poll(2) as selectors, the readiness driver over them, and the factories that open one.

pub(crate) mod auto;
pub(crate) mod blocking;
pub(crate) mod epoll;
pub(crate) mod poll;
mod readiness;
mod selector;
mod waker;
