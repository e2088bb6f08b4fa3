//! The transports of the suite.

mod embedded;
mod local;
mod memory;
mod std_socket;
mod tcp;
mod unix;

pub(crate) use self::embedded::EmbeddedTransport;
pub(crate) use self::local::LocalTransport;
pub(crate) use self::memory::MemoryTransport;
pub(crate) use self::tcp::TcpTransport;
pub(crate) use self::unix::{UnixTransport, free_unix_address};
