//! The driver for those who do not care which (L02).

use std::io;

use waterwheel_channel::driver::{Driver, OpenDriver};

use crate::drivers::epoll::Epoll;
use crate::drivers::poll::Poll;
use crate::error_context::context;

/// Opens the best driver that can be had, in this order:
///
/// 1. [`Epoll`]
/// 2. [`Poll`]
///
/// [`Driver::name`] says which it was; drivers that could not be opened are logged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

impl OpenDriver for Auto {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        first_of(&[("epoll", &Epoll), ("poll", &Poll)])
    }
}

/// The first that opens; if none does, the error of the last.
fn first_of(drivers: &[(&str, &dyn OpenDriver)]) -> io::Result<Box<dyn Driver>> {
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    for (name, driver) in drivers {
        match driver.open() {
            Ok(driver) => return Ok(driver),
            Err(error) => {
                tracing::warn!(driver = name, %error, "cannot open this driver; trying the next one");
                last = error;
            }
        }
    }
    Err(context("no driver can be opened")(last))
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
    fn l02_auto_takes_epoll() {
        assert_eq!(Auto.open().unwrap().name(), "epoll");
    }

    #[test]
    fn l02_what_does_not_open_is_passed_over() {
        let driver = first_of(&[("broken", &Broken("a")), ("poll", &Poll)]).unwrap();
        assert_eq!(driver.name(), "poll");
    }

    #[test]
    fn l02_if_nothing_opens_the_last_error_is_told() {
        let error = first_of(&[("a", &Broken("a")), ("b", &Broken("b"))]).err().unwrap();
        assert_eq!(error.to_string(), "no driver can be opened: b");
    }
}
