//! What drivers carry besides bytes. That these are messages is declared in `pipeline::message`.

mod ancillary;
mod datagram;
mod file_region;
mod io;

pub use self::ancillary::{AncillaryMessage, Credentials};
pub use self::datagram::Datagram;
pub use self::file_region::FileRegion;
pub use self::io::Io;
