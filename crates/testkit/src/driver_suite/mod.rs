//! The conformance suite of drivers: the contract of [`Driver`], bullet by bullet.
//!
//! A driver's crate implements one [`Fixture`], which opens the driver and creates sockets with their peers, and calls
//! one macro:
//!
//! ```
//! use std::net::SocketAddr;
//! use waterwheel_channel::driver::{Driver, Io};
//! use waterwheel_testkit::driver_suite::{
//!     AcceptedConnect, Fixture, ForeignTrigger, RemoteConnector, RemoteDatagrams, RemoteStream,
//! };
//!
//! struct MyDriver;
//!
//! impl Fixture for MyDriver {
//!     fn open(&self) -> Box<dyn Driver> {
//!         // …
//! #       unimplemented!()
//!     }
//!     fn pair(&self) -> (Io, Box<dyn RemoteStream>) {
//!         // …
//! #       unimplemented!()
//!     }
//!     fn listener(&self) -> (Io, Box<dyn RemoteConnector>) {
//!         // …
//! #       unimplemented!()
//!     }
//!     fn connect_accepted(&self) -> AcceptedConnect {
//!         // …
//! #       unimplemented!()
//!     }
//!     fn connect_refused(&self) -> (Io, SocketAddr) {
//!         // …
//! #       unimplemented!()
//!     }
//!     fn datagrams(&self) -> (Io, Box<dyn RemoteDatagrams>) {
//!         // …
//! #       unimplemented!()
//!     }
//!     fn foreign(&self) -> (Io, Box<dyn ForeignTrigger>) {
//!         // …
//! #       unimplemented!()
//!     }
//! }
//!
//! waterwheel_testkit::driver_suite!(my_driver, MyDriver);
//! ```
//!
//! Rules of the suite:
//!
//! 1. Nothing sleeps. A peer acts at once and without the driver's help; the suite waits in the driver, with deadlines
//!    on the driver's own clock.
//! 2. A few short waits that must time out show that something does *not* happen: on a virtual clock they cost nothing,
//!    on a real one tens of milliseconds.
//! 3. Every event of every test passes a checker that knows what is attached, which reads are on and which write is
//!    pending, and panics at an event that the contract forbids.
//! 4. A driver may complete calls at once or later: the suite accepts `Done` and `Pending`, as the contract does.
//! 5. A driver may support fewer sockets than a test needs: then the test is skipped, and prints why.
//!
//! The numbers in the names refer to the promises in `docs/PROMISES.md`: l02 waiting and waking, l05 streams and
//! the order of events, l06 rebuilding, l07 registrations, l08 foreign descriptors, l17 no spinning. Each test is also
//! a public function, for a driver that runs only some of them.

mod bench;
pub mod connections;
pub mod datagrams;
pub mod edge_triggered;
mod event_checker;
pub mod foreign;
pub mod no_spinning;
pub mod reading;
pub mod rebuilding;
pub mod registrations;
mod test_list;
pub mod wait_calls;
pub mod writing;

use std::net::SocketAddr;

use waterwheel_channel::driver::{Driver, Io};

/// Opens a driver, and creates its sockets together with their peers.
pub trait Fixture {
    /// Opens a driver.
    fn open(&self) -> Box<dyn Driver>;

    /// Creates a connected stream, to be attached as `Stream`, and its peer. The stream buffers at most 64 MiB of
    /// unread bytes.
    fn pair(&self) -> (Io, Box<dyn RemoteStream>);

    /// Creates a listening socket, to be attached as `Listener`, and a connector to it.
    fn listener(&self) -> (Io, Box<dyn RemoteConnector>);

    /// Creates a socket to be attached as `Connecting`, and an address that accepts.
    fn connect_accepted(&self) -> AcceptedConnect;

    /// Creates a socket to be attached as `Connecting`, and an address that refuses (ECONNREFUSED).
    fn connect_refused(&self) -> (Io, SocketAddr);

    /// Creates a socket to be attached as `Datagram`, and its connected peer. Fewer than a thousand unreceived
    /// datagrams are buffered.
    fn datagrams(&self) -> (Io, Box<dyn RemoteDatagrams>);

    /// Creates a foreign descriptor, to be registered, which is writable and not readable.
    fn foreign(&self) -> (Io, Box<dyn ForeignTrigger>);

    /// Returns the number of streams or foreign descriptors in tests with many: a thousand by default, fewer where file
    /// descriptors are limited.
    fn crowd_size(&self) -> usize {
        1000
    }

    /// Returns how many sockets the driver supports at a time. Tests that need more are skipped, and print so.
    fn max_sockets(&self) -> usize {
        usize::MAX
    }
}

/// True if the driver supports this many sockets at a time; otherwise prints that the test is skipped.
pub(crate) fn supports_sockets(fixture: &dyn Fixture, sockets: usize) -> bool {
    let max = fixture.max_sockets();
    if max < sockets {
        println!("skipped: needs {sockets} sockets at a time, the driver supports {max}");
    }
    max >= sockets
}

/// The peer of a stream. Dropping it closes the connection.
pub trait RemoteStream {
    /// Sends as many bytes as there is room for, without blocking, and returns their number. There is room for a
    /// kilobyte if everything sent before has been read.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Waits until `len` bytes have arrived, and takes them.
    ///
    /// # Panics
    /// If the bytes do not arrive within a few seconds.
    fn receive(&mut self, len: usize) -> Vec<u8>;

    /// Takes the bytes that have arrived, without blocking.
    fn drain(&mut self) -> Vec<u8>;

    /// Waits until the driver's end is shut down, closed or reset, and sends no more bytes.
    ///
    /// # Panics
    /// If the driver's end has not ended after a few seconds.
    fn wait_ended(&mut self);

    /// Ends the sending direction (half-close); receiving continues.
    fn finish(&mut self);

    /// Resets the connection.
    fn reset(&mut self);
}

/// The connected peer of a datagram socket.
pub trait RemoteDatagrams {
    /// Sends a datagram. There is room for eight datagrams of a kilobyte if all earlier ones were read.
    fn send(&mut self, bytes: &[u8]);

    /// Waits for the next datagram, and takes it.
    ///
    /// # Panics
    /// If no datagram arrives within a few seconds.
    fn receive(&mut self) -> Vec<u8>;

    /// Closes the peer and drops the datagrams it has not received. The driver's socket gets an error: at once if a
    /// datagram was dropped, otherwise at the next send.
    fn close(&mut self);
}

/// Connects to a listener.
pub trait RemoteConnector {
    /// Connects without waiting to be accepted.
    fn connect(&mut self) -> Box<dyn RemoteStream>;
}

/// A connect that will be accepted.
pub struct AcceptedConnect {
    /// The socket to attach.
    pub io: Io,
    /// The address of the connect.
    pub target: SocketAddr,
    /// Returns the peer; called after the socket was attached.
    pub remote: Box<dyn FnOnce() -> Box<dyn RemoteStream>>,
}

/// Makes a foreign descriptor ready. The descriptor is always writable.
pub trait ForeignTrigger {
    /// Makes the descriptor readable until it is drained.
    fn make_readable(&mut self);

    /// Makes the descriptor not readable.
    fn drain(&mut self);

    /// Closes the other end: a hang-up, which is reported for every interest.
    fn hang_up(&mut self);
}
