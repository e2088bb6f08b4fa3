//! Event loops over the drivers of this crate pass the loop suite of the testkit.

#[path = "support/loopback.rs"]
mod loopback;

use waterwheel_net::{Blocking, CoarseEpoll, Epoll, Poll};
use waterwheel_testkit::{loop_io_suite, loop_suite};

use loopback::Loopback;

loop_suite!(epoll, Epoll);
loop_suite!(epoll_in_milliseconds, CoarseEpoll);
loop_suite!(poll, Poll);
loop_suite!(blocking, Blocking);

loop_io_suite!(epoll_io, Loopback(Epoll));
loop_io_suite!(epoll_in_milliseconds_io, Loopback(CoarseEpoll));
loop_io_suite!(poll_io, Loopback(Poll));
loop_io_suite!(blocking_io, Loopback(Blocking));
