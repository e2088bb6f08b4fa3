//! The payloads that drivers carry besides bytes. `pipeline::message` declares them as messages.

mod ancillary;
mod datagram;
mod file_region;
mod io;

pub use self::ancillary::{AncillaryMessage, Credentials};
pub use self::datagram::Datagram;
pub use self::file_region::FileRegion;
pub use self::io::Io;
