//! What a loop gives its driver.

use std::any::{Any, type_name};
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::channel::address::Address;

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

/// What a socket is attached as. It enters the kernel's set only as one of these: a socket that was
/// never connected would report a hang-up for ever (L17).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It listens; its reads are accepts.
    Listener,
    /// It is connected.
    Stream,
    /// It is to be connected to this address.
    Connecting(Address),
    /// It sends and receives datagrams, and is bound or connected already.
    Datagram,
}

/// How a round of reads goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// At most so many reads or accepts in one round, so that one peer cannot starve the others.
    pub max_reads: u32,
    /// At most so many bytes per read; beyond [`MAX_SIZE`](Self::MAX_SIZE) means that many.
    pub size: usize,
}

impl ReadPlan {
    /// No driver reads more than this at once: 1 MiB, more than a socket's buffer holds as a rule.
    pub const MAX_SIZE: usize = 1 << 20;
}

impl Default for ReadPlan {
    /// Sixteen reads of 2 KiB, as Netty begins.
    fn default() -> Self {
        Self { max_reads: 16, size: 2048 }
    }
}

/// What a foreign registration wants to be told of.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Nothing: not a valid interest of a registration.
    pub const NONE: Interest = Interest(0);
    /// There is something to read.
    pub const READABLE: Interest = Interest(1);
    /// There is room to write.
    pub const WRITABLE: Interest = Interest(1 << 1);
    /// There is something urgent; not every driver can tell.
    pub const PRIORITY: Interest = Interest(1 << 2);

    /// Whether it is an interest in nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it covers all of these.
    #[must_use]
    pub fn contains(self, all: Interest) -> bool {
        self.0 & all.0 == all.0
    }

    /// Without these.
    #[must_use]
    pub fn without(self, these: Interest) -> Interest {
        Interest(self.0 & !these.0)
    }
}

impl std::ops::BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READABLE, "readable"),
            (Self::WRITABLE, "writable"),
            (Self::PRIORITY, "priority"),
        ];
        let set = names.iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| *name);
        write!(f, "Interest({})", set.collect::<Vec<_>>().join(" | "))
    }
}
