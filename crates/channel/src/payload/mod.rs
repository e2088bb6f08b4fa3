//! What drivers carry besides bytes. That these are messages is declared in `pipeline::message`.

mod datagram;
mod file_region;
mod io;
mod parcel;

pub use self::datagram::Datagram;
pub use self::file_region::FileRegion;
pub use self::io::Io;
pub use self::parcel::{Credentials, Parcel};
