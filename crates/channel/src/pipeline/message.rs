//! Messages: the values that handlers read and write.

use std::any::{Any, TypeId};
use std::convert::Infallible;
use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::payload::{AncillaryMessage, Datagram, FileRegion};

/// A type whose values can be read and written by handlers. `Send`, because a message may come from,
/// or go to, another thread.
///
/// ```
/// use waterwheel_channel::{Message, Msg};
///
/// #[derive(Debug)]
/// struct Request {
///     path: String,
/// }
///
/// impl Message for Request {
///     fn size_hint(&self) -> usize {
///         self.path.len()
///     }
/// }
///
/// let msg = Msg::from(Request { path: "/".into() });
/// assert_eq!(msg.size_hint(), 1);
/// assert_eq!(msg.take::<Request>().unwrap().path, "/");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message",
    note = "declare it with `impl Message for {Self} {{}}`; override `size_hint` if it counts for the water marks"
)]
pub trait Message: Any + Send {
    /// Returns roughly how many bytes this message takes while it waits to be written. The
    /// high-water and low-water marks count these bytes. Zero by default: such messages never make
    /// the channel unwritable.
    fn size_hint(&self) -> usize {
        0
    }

    /// Returns the name of the message's type, for errors and logs.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
}

/// A message whose type is not known at compile time. [`Bytes`] are stored inline, any other type in a
/// box; neither is copied or allocated again on its way through a pipeline.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::Msg;
///
/// let msg = Msg::from(Bytes::from_static(b"hello"));
/// assert!(msg.is::<Bytes>());
/// // Not a `String`: the message is returned unchanged.
/// let msg = msg.take::<String>().unwrap_err();
/// assert_eq!(msg.take::<Bytes>().unwrap(), "hello");
/// ```
pub struct Msg(MsgRepr);

enum MsgRepr {
    Bytes(Bytes),
    /// Never [`Bytes`]: the representation depends on the type alone.
    Any(Box<dyn Message>),
}

impl Msg {
    /// Wraps a message of any type.
    pub fn new<T: Message>(value: T) -> Self {
        let mut value = Some(value);
        match (&mut value as &mut dyn Any).downcast_mut::<Option<Bytes>>().and_then(Option::take) {
            Some(bytes) => Self(MsgRepr::Bytes(bytes)),
            None => match value {
                Some(value) => Self(MsgRepr::Any(Box::new(value))),
                None => unreachable!("the value is taken only if it is `Bytes`"),
            },
        }
    }

    /// Wraps a message that is boxed already. Not for [`Bytes`], which are never boxed.
    pub(crate) fn from_box(message: Box<impl Message>) -> Self {
        Self(MsgRepr::Any(message))
    }

    /// Returns the message as a `T`.
    ///
    /// # Errors
    /// Returns the message unchanged if it is of another type.
    #[inline(always)]
    pub fn take<T: Message>(self) -> Result<T, Msg> {
        match self.0 {
            MsgRepr::Bytes(bytes) => Self::take_bytes(bytes),
            MsgRepr::Any(any) if (&*any as &dyn Any).is::<T>() => {
                match (any as Box<dyn Any>).downcast::<T>() {
                    Ok(value) => Ok(*value),
                    Err(_) => unreachable!("the type was just checked"),
                }
            }
            any @ MsgRepr::Any(_) => Err(Self(any)),
        }
    }

    #[inline(always)]
    fn take_bytes<T: Message>(bytes: Bytes) -> Result<T, Msg> {
        let mut bytes = Some(bytes);
        let found = (&mut bytes as &mut dyn Any).downcast_mut::<Option<T>>();
        match (found.and_then(Option::take), bytes) {
            (Some(found), _) => Ok(found),
            (None, Some(bytes)) => Err(Self(MsgRepr::Bytes(bytes))),
            (None, None) => unreachable!("the bytes are taken only if `T` is `Bytes`"),
        }
    }

    /// Returns a reference to the message if it is a `T`.
    #[must_use]
    pub fn get<T: Message>(&self) -> Option<&T> {
        match &self.0 {
            MsgRepr::Bytes(bytes) => (bytes as &dyn Any).downcast_ref(),
            MsgRepr::Any(any) => (&**any as &dyn Any).downcast_ref(),
        }
    }

    /// Returns the message as [`Bytes`].
    ///
    /// # Errors
    /// Returns the message unchanged if it is of another type.
    #[inline]
    pub fn into_bytes(self) -> Result<Bytes, Msg> {
        match self.0 {
            MsgRepr::Bytes(bytes) => Ok(bytes),
            any @ MsgRepr::Any(_) => Err(Self(any)),
        }
    }

    /// True if the message is a `T`.
    #[must_use]
    pub fn is<T: Message>(&self) -> bool {
        self.type_id_of_value() == TypeId::of::<T>()
    }

    pub(crate) fn type_id_of_value(&self) -> TypeId {
        match &self.0 {
            MsgRepr::Bytes(_) => TypeId::of::<Bytes>(),
            MsgRepr::Any(any) => (&**any as &dyn Any).type_id(),
        }
    }

    /// Returns the name of the message's type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match &self.0 {
            MsgRepr::Bytes(bytes) => bytes.type_name(),
            MsgRepr::Any(any) => any.type_name(),
        }
    }

    /// Returns how many bytes the message counts for while it waits to be written: see
    /// [`Message::size_hint`].
    #[must_use]
    pub fn size_hint(&self) -> usize {
        match &self.0 {
            MsgRepr::Bytes(bytes) => bytes.len(),
            MsgRepr::Any(any) => any.size_hint(),
        }
    }
}

impl<T: Message> From<T> for Msg {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl fmt::Debug for Msg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            MsgRepr::Bytes(bytes) => write!(f, "Msg({bytes:?})"),
            MsgRepr::Any(any) => write!(f, "Msg({})", any.type_name()),
        }
    }
}

/// The output type of a [`Stage`](super::Stage) that emits nothing: the type has no values.
impl Message for Infallible {}

impl Message for Bytes {
    fn size_hint(&self) -> usize {
        self.len()
    }
}

impl Message for BytesMut {
    fn size_hint(&self) -> usize {
        self.len()
    }
}

impl Message for String {
    fn size_hint(&self) -> usize {
        self.len()
    }
}

impl Message for &'static str {
    fn size_hint(&self) -> usize {
        self.len()
    }
}

impl Message for Vec<u8> {
    fn size_hint(&self) -> usize {
        self.len()
    }
}

// The payloads of drivers besides bytes. Declared as messages here, because drivers do not know pipelines.

impl Message for Datagram {
    /// An empty datagram counts as one byte, because it takes a place in the queue like any other.
    fn size_hint(&self) -> usize {
        self.bytes().len().max(1)
    }
}

impl Message for AncillaryMessage {
    /// An empty message counts as one byte, because it takes a place in the queue like any other.
    fn size_hint(&self) -> usize {
        self.bytes.len().max(1) + self.passed_pending_bytes()
    }
}

impl Message for FileRegion {
    fn size_hint(&self) -> usize {
        if self.is_empty() { 0 } else { FileRegion::PENDING_BYTES }
    }
}

macro_rules! plain_messages {
    ($($plain:ty),*) => {
        $(impl Message for $plain {
            fn size_hint(&self) -> usize {
                size_of::<Self>()
            }
        })*
    };
}

plain_messages!((), bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c06_a_message_is_four_words() {
        assert_eq!(size_of::<Msg>(), 4 * size_of::<usize>());
    }

    #[test]
    fn c06_bytes_are_stored_inline_by_new_and_from() {
        let msg = Msg::new(Bytes::from_static(b"abc"));
        assert!(msg.is::<Bytes>());
        assert_eq!((msg.size_hint(), msg.get::<Bytes>().unwrap().as_ref()), (3, &b"abc"[..]));
        assert_eq!(msg.take::<Bytes>().unwrap(), "abc");
        assert_eq!(Msg::from(Bytes::from_static(b"d")).into_bytes().unwrap(), "d");
    }

    #[test]
    fn c06_take_of_another_type_returns_the_message() {
        let msg = Msg::new(7u32).take::<String>().unwrap_err().into_bytes().unwrap_err();
        assert_eq!(msg.type_name(), "u32");
        assert_eq!(msg.take::<u32>().unwrap(), 7);
        let msg = Msg::new(Bytes::from_static(b"x")).take::<Vec<u8>>().unwrap_err();
        assert_eq!(msg.take::<Bytes>().unwrap(), "x");
    }
}
