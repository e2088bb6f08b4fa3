//! The origin of a piece of work, in one word.
//!
//! A task remembers the source line that submitted it, or a label if it was submitted through a labelled
//! executor. One word, so that it costs a task eight bytes, and the loop can publish what it is doing with a
//! single relaxed store ([`OriginCell`]).

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::ptr;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::sync::{AtomicPtr, Ordering};

/// The origin of a task, listener or hook: its label, or the source line that submitted it.
///
/// ```
/// use waterwheel_executor::Origin;
///
/// let here = Origin::here();
/// assert!(here.to_string().contains(".rs:"));
/// assert_eq!(Origin::labelled("flush metrics").to_string(), "flush metrics");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// A `&'static Location`, or a `&'static Label` with [`LABEL`] added.
    tagged: *const u8,
}

/// The low bit distinguishes a label from a location: both types are word-aligned.
const LABEL: usize = 1;
const _: () = assert!(align_of::<Label>() > LABEL && align_of::<Location<'static>>() > LABEL);

struct Label(&'static str);

// SAFETY: an origin is one of two shared references to immutable statics, both of them Sync.
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

enum Decoded {
    Location(&'static Location<'static>),
    Label(&'static Label),
}

impl Origin {
    /// Returns the source line of the caller.
    #[track_caller]
    #[must_use]
    pub fn here() -> Self {
        Self { tagged: ptr::from_ref(Location::caller()).cast() }
    }

    /// Returns the origin for a user's label. Each distinct label is kept for the life of the process.
    #[must_use]
    pub fn labelled(name: &'static str) -> Self {
        static LABELS: LazyLock<Mutex<HashMap<&'static str, &'static Label>>> =
            LazyLock::new(Mutex::default);
        let mut labels = LABELS.lock().unwrap_or_else(PoisonError::into_inner);
        let label = *labels.entry(name).or_insert_with(|| Box::leak(Box::new(Label(name))));
        Self { tagged: ptr::from_ref(label).cast::<u8>().wrapping_add(LABEL) }
    }

    /// Returns the label, if this origin is a label.
    #[must_use]
    pub fn label(self) -> Option<&'static str> {
        match self.decode() {
            Decoded::Label(label) => Some(label.0),
            Decoded::Location(_) => None,
        }
    }

    /// Returns the source line, unless this origin is a label.
    #[must_use]
    pub fn location(self) -> Option<&'static Location<'static>> {
        match self.decode() {
            Decoded::Location(location) => Some(location),
            Decoded::Label(_) => None,
        }
    }

    fn decode(self) -> Decoded {
        if self.tagged.addr() & LABEL == 0 {
            // SAFETY: without the tag the pointer came from a `&'static Location`.
            Decoded::Location(unsafe { &*self.tagged.cast() })
        } else {
            let untagged = self.tagged.wrapping_sub(LABEL);
            // SAFETY: with the tag it came from a `&'static Label` plus LABEL.
            Decoded::Label(unsafe { &*untagged.cast() })
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Decoded::Location(location) => location.fmt(f),
            Decoded::Label(label) => f.write_str(label.0),
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

/// A cell for an origin that one thread writes and any thread may read.
#[derive(Debug)]
pub(crate) struct OriginCell {
    tagged: AtomicPtr<u8>,
}

impl OriginCell {
    pub(crate) fn new(origin: Origin) -> Self {
        Self { tagged: AtomicPtr::new(origin.tagged.cast_mut()) }
    }

    #[inline]
    pub(crate) fn set(&self, origin: Origin) {
        self.tagged.store(origin.tagged.cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> Origin {
        // Relaxed is enough: the target of the pointer is immutable, and was there before the loop.
        Origin { tagged: self.tagged.load(Ordering::Relaxed).cast_const() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_label_or_a_source_line() {
        let here = Origin::here();
        assert_eq!(here.location().unwrap().file(), file!());
        assert_eq!(here.label(), None);
        let named = Origin::labelled("named");
        assert_eq!(named.label(), Some("named"));
        assert!(named.location().is_none());
        assert_eq!(named, Origin::labelled("named"), "one label a name");
        assert_ne!(named, Origin::labelled("other"));
    }

    #[test]
    fn an_origin_comes_back_as_it_was_set() {
        let cell = OriginCell::new(Origin::labelled("idle"));
        assert_eq!(cell.get().label(), Some("idle"));
        cell.set(Origin::labelled("busy"));
        assert_eq!(cell.get().label(), Some("busy"));
    }
}
