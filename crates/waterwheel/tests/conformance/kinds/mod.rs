//! The transports of the suite.

mod embedded;
mod local;
mod memory;
mod stranger;
mod tcp;
mod unix;

pub(crate) use self::embedded::EmbeddedKind;
pub(crate) use self::local::LocalKind;
pub(crate) use self::memory::MemoryKind;
pub(crate) use self::tcp::TcpKind;
pub(crate) use self::unix::{UnixKind, free_unix_address};
