//! Cases about what follows a message on its connection, and about limits.

pub(crate) mod expect;
pub(crate) mod keep_alive;
pub(crate) mod limits;
pub(crate) mod pipelining;
