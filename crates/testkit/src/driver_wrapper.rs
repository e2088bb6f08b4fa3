//! A driver that wraps another driver; a test overrides only some of the methods.
//!
//! [`DriverWrapper`] has every method of [`Driver`]; each forwards to the inner driver unless it is overridden.
//! [`WrappingFactory`] opens wrapped drivers, so that a loop can be built with one.
//!
//! ```
//! use std::io::Result;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! use waterwheel_channel::driver::{Driver, OpenDriver, WaitSummary};
//! use waterwheel_executor::Nanos;
//! use waterwheel_testkit::driver_wrapper::{WrappingFactory, DriverWrapper};
//! use waterwheel_testkit::manual::Manual;
//!
//! struct CountsWaits {
//!     inner: Box<dyn Driver>,
//!     waits: Arc<AtomicUsize>,
//! }
//!
//! impl DriverWrapper for CountsWaits {
//!     fn inner(&self) -> &dyn Driver {
//!         &*self.inner
//!     }
//!
//!     fn inner_mut(&mut self) -> &mut dyn Driver {
//!         &mut *self.inner
//!     }
//!
//!     fn wait(&mut self, until: Option<Nanos>) -> Result<WaitSummary> {
//!         self.waits.fetch_add(1, Ordering::Relaxed);
//!         self.inner.wait(until)
//!     }
//! }
//!
//! let waits = Arc::new(AtomicUsize::new(0));
//! let counter = waits.clone();
//! let factory = WrappingFactory::new(Manual::readiness(), move |inner| CountsWaits {
//!     inner,
//!     waits: counter.clone(),
//! });
//! let mut driver = factory.open()?;
//! driver.wait(Some(Nanos(0)))?;
//! assert_eq!(waits.load(Ordering::Relaxed), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fmt;
use std::io::Result;
use std::net::Shutdown;
use std::sync::Arc;

use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OpenDriver, OutQueue, ReadPlan, Role, SocketOption,
    Submit, WaitSummary,
};
use waterwheel_channel::{Address, AncillaryMessage, Credentials, Datagram, FileRegion, Token};
use waterwheel_executor::{Clock, Nanos, Unpark};

/// A driver factory that wraps each driver of another factory in a [`DriverWrapper`].
pub struct WrappingFactory<O, F> {
    inner: O,
    wrap: F,
}

impl<O, F, D> WrappingFactory<O, F>
where
    O: OpenDriver,
    F: Fn(Box<dyn Driver>) -> D + Send + Sync,
    D: DriverWrapper + 'static,
{
    /// Creates a factory that passes each driver opened by `inner` to `wrap`.
    #[must_use]
    pub fn new(inner: O, wrap: F) -> Self {
        Self { inner, wrap }
    }
}

impl<O, F, D> OpenDriver for WrappingFactory<O, F>
where
    O: OpenDriver,
    F: Fn(Box<dyn Driver>) -> D + Send + Sync,
    D: DriverWrapper + 'static,
{
    fn open(&self) -> Result<Box<dyn Driver>> {
        Ok(Box::new(WrappedDriver((self.wrap)(self.inner.open()?))))
    }
}

impl<O: fmt::Debug, F> fmt::Debug for WrappingFactory<O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrappingFactory").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Implements [`Driver`] for a [`DriverWrapper`].
///
/// A blanket implementation is not possible: the trait belongs to another crate.
#[derive(Debug)]
pub struct WrappedDriver<D>(pub D);

/// Generates every method twice from one list: as a default method of [`DriverWrapper`] that forwards to the inner
/// driver, and as the [`Driver`] method of [`WrappedDriver`] that calls the wrapper.
macro_rules! forwarded {
    (
        $(&self: fn $read:ident($($read_arg:ident: $read_type:ty),*) $(-> $read_result:ty)?;)*
        $(&mut self: fn $write:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*
    ) => {
        /// A driver that wraps another one. Every method but the first two forwards to the inner driver. See [`Driver`]
        /// for what each method does, and the [module's documentation](self) for an example.
        pub trait DriverWrapper: Send {
            /// Returns the inner driver.
            fn inner(&self) -> &dyn Driver;

            /// Returns the inner driver mutably.
            fn inner_mut(&mut self) -> &mut dyn Driver;

            $(
                #[doc = concat!("Forwards [`Driver::", stringify!($read), "`].")]
                #[allow(clippy::missing_errors_doc, reason = "the forwarded method has them")]
                fn $read(&self, $($read_arg: $read_type),*) $(-> $read_result)? {
                    self.inner().$read($($read_arg),*)
                }
            )*
            $(
                #[doc = concat!("Forwards [`Driver::", stringify!($write), "`].")]
                #[allow(clippy::missing_errors_doc, reason = "the forwarded method has them")]
                fn $write(&mut self, $($arg: $type),*) $(-> $result)? {
                    self.inner_mut().$write($($arg),*)
                }
            )*
        }

        impl<D: DriverWrapper> Driver for WrappedDriver<D> {
            $(
                fn $read(&self, $($read_arg: $read_type),*) $(-> $read_result)? {
                    self.0.$read($($read_arg),*)
                }
            )*
            $(
                fn $write(&mut self, $($arg: $type),*) $(-> $result)? {
                    self.0.$write($($arg),*)
                }
            )*
        }
    };
}

// `write_slice` is not among them: its default calls `write`, so that a wrapper sees every write of a stream there.
forwarded! {
    &self: fn name() -> &'static str;
    &self: fn clock() -> Clock;
    &self: fn waker() -> Arc<dyn Unpark>;
    &self: fn local_address(token: Token) -> Option<Address>;
    &self: fn working_on() -> Option<Token>;
    &self: fn peer_credentials(token: Token) -> Result<Credentials>;
    &mut self: fn attach(token: Token, io: Io, role: Role) -> Result<()>;
    &mut self: fn detach(token: Token) -> Detach;
    &mut self: fn release(token: Token) -> Result<Io>;
    &mut self: fn set_option(token: Token, option: SocketOption) -> Result<()>;
    &mut self: fn set_read(token: Token, plan: Option<ReadPlan>);
    &mut self: fn write(token: Token, queue: &OutQueue) -> Result<Submit>;
    &mut self: fn send_file(token: Token, file: &FileRegion) -> Result<Submit>;
    &mut self: fn send_datagrams(
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>
    ) -> Result<Submit>;
    &mut self: fn send_ancillary(token: Token, ancillary: &AncillaryMessage) -> Result<Submit>;
    &mut self: fn shutdown(token: Token, how: Shutdown) -> Result<()>;
    &mut self: fn register_foreign(token: Token, io: Io, interest: Interest) -> Result<()>;
    &mut self: fn set_interest(token: Token, interest: Interest) -> Result<()>;
    &mut self: fn rebuild() -> Result<usize>;
    &mut self: fn wait(until: Option<Nanos>) -> Result<WaitSummary>;
    &mut self: fn next_event() -> Option<IoEvent>;
}
