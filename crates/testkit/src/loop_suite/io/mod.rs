//! The part of the suite that needs something to watch: streams and foreign descriptors.
//!
//! It takes the [`Fixture`](crate::driver_suite::Fixture) of the drivers' suite.

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
