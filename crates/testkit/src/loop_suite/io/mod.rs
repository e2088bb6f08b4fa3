//! The part of the suite that needs sockets: streams and foreign descriptors.
//!
//! The tests use the [`Fixture`](crate::driver_suite::Fixture) of the driver suite.

mod ending;
mod fairness;
mod foreign;
mod probe;
mod rebuilding;
mod streams;
mod test_list;

pub use self::ending::*;
pub use self::fairness::*;
pub use self::foreign::*;
pub use self::rebuilding::*;
pub use self::streams::*;
