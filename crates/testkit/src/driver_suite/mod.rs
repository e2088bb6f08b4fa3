//! The suite that every driver passes: the contract of [`Driver`], bullet by bullet.
//!
//! A driver's crate writes one [`Fixture`], which opens the driver and makes its counterparts, and one
//! line:
//!
//! ```
//! use std::net::SocketAddr;
//! use waterwheel_channel::driver::{Driver, Io};
//! use waterwheel_testkit::driver_suite::{AcceptedConnect, RemoteConnector, Fixture, RemoteDatagrams, RemoteStream, ForeignTrigger};
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
//! 1. Nothing sleeps. A counterpart acts at once and without the driver's help; the suite waits on the
//!    driver, with deadlines on the driver's own clock.
//! 2. That something does *not* happen is shown by a few short waits that must time out: on a virtual
//!    clock they cost nothing, on a real one tens of milliseconds.
//! 3. Every event of every test passes a checker that knows what is attached, which reads are
//!    on and which write is pending, and refuses what the contract forbids at that moment.
//! 4. A driver may answer at once or later: the suite takes `Done` and `Pending`, as the contract does.
//! 5. A driver may be for fewer sockets than a test needs: then the test is left out, and prints why.
//!
//! The numbers in the names are the promises: l02 waiting and waking, l05 streams and the order of
//! events, l06 rebuilding, l07 registrations, l08 foreign descriptors, l17 what must not spin. Each
//! test is a public function as well, for a driver that has a reason to run only some of them.

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
pub mod waiting;
pub mod writing;

use std::net::SocketAddr;

use waterwheel_channel::driver::{Driver, Io};

/// Opens a driver, and makes what it is given together with the other side of it.
pub trait Fixture {
    /// Opens a driver.
    fn open(&self) -> Box<dyn Driver>;

    /// A connected stream, to be attached as `Stream`, and its other end. The room between them is
    /// limited: at most 64 MiB are taken that nobody reads.
    fn pair(&self) -> (Io, Box<dyn RemoteStream>);

    /// A listening socket, to be attached as `Listener`.
    fn listener(&self) -> (Io, Box<dyn RemoteConnector>);

    /// A socket to be attached as `Connecting`, to an address that accepts.
    fn connect_accepted(&self) -> AcceptedConnect;

    /// A socket to be attached as `Connecting`, and an address that refuses.
    fn connect_refused(&self) -> (Io, SocketAddr);

    /// A socket to be attached as `Datagram`, and whom it is connected to. At most a thousand datagrams
    /// are taken that nobody receives.
    fn datagrams(&self) -> (Io, Box<dyn RemoteDatagrams>);

    /// A foreign descriptor, to be registered. It is writable and not readable.
    fn foreign(&self) -> (Io, Box<dyn ForeignTrigger>);

    /// How many streams, or foreign descriptors, make a crowd. A thousand; fewer where descriptors
    /// are scarce.
    fn crowd_size(&self) -> usize {
        1000
    }

    /// How many sockets the driver takes at a time. Tests that need more are left out, and say so.
    fn max_sockets(&self) -> usize {
        usize::MAX
    }
}

/// Whether a driver takes so many sockets at a time; if not, says that a test is left out.
pub(crate) fn supports_sockets(fixture: &dyn Fixture, sockets: usize) -> bool {
    let most = fixture.max_sockets();
    if most < sockets {
        println!("left out: needs {sockets} sockets at a time, the driver takes {most}");
    }
    most >= sockets
}

/// The other end of a stream. Dropping it closes it.
pub trait RemoteStream {
    /// Sends what there is room for, without blocking; returns how much that is. A kilobyte always
    /// fits if what was sent before has been read.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Waits until so many bytes have arrived, and takes them.
    ///
    /// # Panics
    /// If they do not arrive in a few seconds.
    fn receive(&mut self, len: usize) -> Vec<u8>;

    /// Takes whatever has arrived, without blocking.
    fn drain(&mut self) -> Vec<u8>;

    /// Waits until the driver's end has said that it will send no more, by whatever means.
    ///
    /// # Panics
    /// If it does not in a few seconds.
    fn wait_ended(&mut self);

    /// Sends no more, and goes on receiving.
    fn finish(&mut self);

    /// Resets the connection.
    fn reset(&mut self);
}

/// Whom a socket for datagrams is connected to.
pub trait RemoteDatagrams {
    /// Sends a datagram. Eight of a kilobyte always fit if those before were read.
    fn send(&mut self, bytes: &[u8]);

    /// Waits for the next datagram, and takes it.
    ///
    /// # Panics
    /// If there is none in a few seconds.
    fn receive(&mut self) -> Vec<u8>;

    /// Goes away, with what it has not received. That is an error of the driver's socket: at once if there
    /// was something, with the next send at the latest.
    fn close(&mut self);
}

/// The way to a listener.
pub trait RemoteConnector {
    /// Connects, without waiting to be accepted.
    fn connect(&mut self) -> Box<dyn RemoteStream>;
}

/// A connect that will be accepted.
pub struct AcceptedConnect {
    /// What is attached.
    pub io: Io,
    /// As `Connecting` to this address.
    pub target: SocketAddr,
    /// The other end; called after the socket was attached.
    pub remote: Box<dyn FnOnce() -> Box<dyn RemoteStream>>,
}

/// The hand that makes a foreign descriptor ready. It is always writable.
pub trait ForeignTrigger {
    /// Makes it readable, until it is drained.
    fn make_readable(&mut self);

    /// Makes it unreadable.
    fn drain(&mut self);

    /// Closes the other end: a hang-up, which no interest can hide.
    fn hang_up(&mut self);
}
