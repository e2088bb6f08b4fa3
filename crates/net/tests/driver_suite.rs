//! The drivers of this crate pass the driver suite of the testkit, with TCP on the loopback.

#[path = "support/loopback.rs"]
mod loopback;

use waterwheel_net::{Blocking, CoarseEpoll, Epoll, Poll};
use waterwheel_testkit::driver_suite;

use loopback::Loopback;

driver_suite!(epoll, Loopback(Epoll));
driver_suite!(epoll_in_milliseconds, Loopback(CoarseEpoll));
driver_suite!(poll, Loopback(Poll));
driver_suite!(blocking, Loopback(Blocking));
