//! A text that only its owners know.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;

/// A secret: bytes that are not shown, and compared in a time that does not tell where they differ.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Creates a secret.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// True if this is the secret. The time tells no more than whether the length is right.
    #[must_use]
    pub fn is_equal_to(&self, guess: &[u8]) -> bool {
        verify_slices_are_equal(&self.0, guess).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g03_a_secret_is_compared_as_a_whole_and_not_shown() {
        let secret = Secret::new("0123456789abcdef");
        assert!(secret.is_equal_to(b"0123456789abcdef"));
        for guess in ["", "0", "0123456789abcdeF", "0123456789abcdef0"] {
            assert!(!secret.is_equal_to(guess.as_bytes()), "{guess}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(16 bytes)");
    }
}
