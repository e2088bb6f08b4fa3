//! Chooses a driver for callers that do not name one (L02).

use std::io;

use waterwheel_channel::driver::{Driver, OpenDriver};

use crate::drivers::epoll::Epoll;
use crate::drivers::poll::Poll;
use crate::error_context::context;

/// Opens the first driver that the system allows, in this order:
///
/// 1. [`Epoll`]
/// 2. [`Poll`]
///
/// [`Driver::name`] returns which driver was opened. A driver that cannot be opened is logged with its error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

impl OpenDriver for Auto {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        first_of(&[("epoll", &Epoll), ("poll", &Poll)])
    }
}

/// Returns the first driver that opens; if no driver opens, the error of the last one.
fn first_of(drivers: &[(&str, &dyn OpenDriver)]) -> io::Result<Box<dyn Driver>> {
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    for (name, driver) in drivers {
        match driver.open() {
            Ok(driver) => return Ok(driver),
            Err(error) => {
                tracing::warn!(
                    driver = name,
                    %error,
                    "cannot open the {name} driver; Auto falls back to its next choice"
                );
                last = error;
            }
        }
    }
    let names: Vec<_> = drivers.iter().map(|(name, _)| *name).collect();
    Err(context(format!("cannot open any driver of {}", names.join(", ")))(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(&'static str);

    impl OpenDriver for Broken {
        fn open(&self) -> io::Result<Box<dyn Driver>> {
            Err(io::Error::other(self.0))
        }
    }

    #[test]
    fn l02_auto_opens_epoll() {
        assert_eq!(Auto.open().unwrap().name(), "epoll");
    }

    #[test]
    fn l02_a_driver_that_does_not_open_is_skipped() {
        let driver = first_of(&[("broken", &Broken("a")), ("poll", &Poll)]).unwrap();
        assert_eq!(driver.name(), "poll");
    }

    #[test]
    fn l02_if_no_driver_opens_the_last_error_is_returned() {
        let error = first_of(&[("a", &Broken("a")), ("b", &Broken("b"))]).err().unwrap();
        assert_eq!(error.to_string(), "cannot open any driver of a, b: b");
    }
}
