//! Sockets and file descriptors, as an opaque value.

use std::any::{Any, type_name};
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

/// A socket or another file descriptor that is passed to a driver. Opaque in this crate, which does not
/// depend on an operating system; the crate of the driver wraps and unwraps it.
pub struct Io {
    inner: Box<dyn IoContent>,
}

/// The content of an [`Io`]. A trait of its own instead of `Any` plus a name, so that an `Io` is two machine words:
/// it is part of every event.
trait IoContent: Send {
    fn kind(&self) -> &'static str;

    fn as_any(&self) -> &dyn Any;

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Any + Send> IoContent for T {
    fn kind(&self) -> &'static str {
        type_name::<T>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Io {
    /// Wraps a value that a driver can use.
    pub fn new<T: Any + Send>(inner: T) -> Self {
        Self { inner: Box::new(inner) }
    }

    /// Returns the wrapped value as a `T`.
    ///
    /// # Errors
    /// Returns the `Io` unchanged if it holds another type.
    pub fn downcast<T: Any>(self) -> Result<T, Io> {
        if !(*self.inner).as_any().is::<T>() {
            return Err(self);
        }
        match self.inner.into_any().downcast::<T>() {
            Ok(inner) => Ok(*inner),
            Err(_) => unreachable!("the type was just checked"),
        }
    }

    /// Returns a reference to the wrapped value if it is a `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        (*self.inner).as_any().downcast_ref()
    }

    /// Returns the error of a driver that refuses this value. The error keeps the value until the driver
    /// has returned: its destructor may be user code that calls the loop, whose driver is borrowed until
    /// then.
    #[must_use]
    pub fn refused(self, kind: io::ErrorKind, why: String) -> io::Error {
        io::Error::new(kind, RefusedIo { why, io: Mutex::new(Some(self)) })
    }

    /// Takes the value that a driver has refused out of its error.
    pub(crate) fn take_refused(error: &mut io::Error) -> Option<Self> {
        let refused: &mut RefusedIo = error.get_mut()?.downcast_mut()?;
        refused.io.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the name of the wrapped type, for errors.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        (*self.inner).kind()
    }
}

/// The error of a driver that refuses a value: the reason, and the value until it is taken.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
struct RefusedIo {
    why: String,
    /// The value, in a mutex because errors must be `Sync` and an `Io` is not. The value is only moved out.
    io: Mutex<Option<Io>>,
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Io({})", self.kind())
    }
}
