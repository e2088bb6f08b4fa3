//! Sockets and descriptors, as an opaque value.

use std::any::{Any, type_name};
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

/// A socket or a foreign descriptor on its way to a driver: opaque here, because this crate knows no
/// operating system. The driver's crate makes them and takes them apart.
pub struct Io {
    inner: Box<dyn Inner>,
}

/// What is in an [`Io`]. Two words are enough for it: they travel with every event.
trait Inner: Send {
    fn kind(&self) -> &'static str;

    fn as_any(&self) -> &dyn Any;

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Any + Send> Inner for T {
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
    /// Wraps what a driver understands.
    pub fn new<T: Any + Send>(inner: T) -> Self {
        Self { inner: Box::new(inner) }
    }

    /// Takes it apart again, if it is a `T`.
    ///
    /// # Errors
    /// Itself, if it is something else.
    pub fn downcast<T: Any>(self) -> Result<T, Io> {
        if !(*self.inner).as_any().is::<T>() {
            return Err(self);
        }
        match self.inner.into_any().downcast::<T>() {
            Ok(inner) => Ok(*inner),
            Err(_) => unreachable!("it was looked at"),
        }
    }

    /// A look at it, if it is a `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        (*self.inner).as_any().downcast_ref()
    }

    /// Makes the error of a driver that does not take it. The error keeps it until the driver has returned: its
    /// destructor may be the user's, and may call the loop, which lends the driver meanwhile.
    #[must_use]
    pub fn refused(self, kind: io::ErrorKind, why: String) -> io::Error {
        io::Error::new(kind, Refused { why, io: Mutex::new(Some(self)) })
    }

    /// Takes out of an error what a driver has refused.
    pub(crate) fn take_refused(error: &mut io::Error) -> Option<Self> {
        let refused: &mut Refused = error.get_mut()?.downcast_mut()?;
        refused.io.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What it is, for errors: the name of its type.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        (*self.inner).kind()
    }
}

/// Why a driver does not take something, and what that is until it is dropped.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
struct Refused {
    why: String,
    /// Errors are `Sync`, and this is not: it is only ever moved out.
    io: Mutex<Option<Io>>,
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Io({})", self.kind())
    }
}
