//! The drivers of this crate pass the drivers' suite, with TCP on the loopback.

mod loopback;

use waterwheel_net::{Blocking, Epoll, Poll};
use waterwheel_testkit::driver_suite;

use loopback::Loopback;

driver_suite!(epoll, Loopback(Epoll::default()));
driver_suite!(epoll_in_milliseconds, Loopback(Epoll::with_millisecond_waits()));
driver_suite!(poll, Loopback(Poll));
driver_suite!(blocking, Loopback(Blocking));
