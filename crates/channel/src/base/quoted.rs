//! Quotes a peer's bytes in error texts.

use std::fmt;

/// The first bytes of a peer's input, for an error text: at most 24, in single quotes, control characters escaped.
///
/// ```
/// use waterwheel_channel::Quoted;
///
/// assert_eq!(Quoted::new(b"GET / HTTP\r\n").to_string(), r"'GET / HTTP\r\n'");
/// assert_eq!(Quoted::new(&[b'x'; 100]).to_string().len(), 26);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Quoted {
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
}

impl Quoted {
    /// Maximum number of quoted bytes.
    const MAX_BYTES: usize = 24;

    /// Copies the first bytes of `found`.
    #[must_use]
    pub fn new(found: &[u8]) -> Self {
        let length = found.len().min(Self::MAX_BYTES);
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..length].copy_from_slice(&found[..length]);
        Self { bytes, length: length as u8 }
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.bytes[..usize::from(self.length)].escape_ascii())
    }
}

impl fmt::Debug for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
