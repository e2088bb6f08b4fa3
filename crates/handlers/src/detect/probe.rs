//! The trait of probes.

/// Recognises a protocol by the first bytes of a connection. Closures are probes: `|bytes: &[u8]| …`.
///
/// ```
/// use waterwheel_handlers::{Detection, Probe};
///
/// // SSH begins with its version.
/// let ssh = |bytes: &[u8]| Detection::of_prefix(bytes, b"SSH-2.0-");
/// assert_eq!(ssh.probe(b"SSH-", 0), Detection::NeedMore);
/// assert_eq!(ssh.probe(b"SSH-2.0-OpenSSH_9.2\r\n", 0), Detection::Match);
/// assert_eq!(ssh.probe(b"GET / HTTP/1.1\r\n", 0), Detection::NoMatch);
/// ```
///
/// Contract:
///
/// 1. *A decision is final.* A probe that answers `Match` or `NoMatch` for some bytes answers the same for those bytes
///    followed by any others. Otherwise the choice depends on how the network has cut the bytes.
/// 2. *Decide early.* A probe that needs more bytes than its peer sends before it waits for an answer stalls the
///    connection until the limit of time.
/// 3. A probe has no state and is shared by all connections. It is never called without bytes.
pub trait Probe: Send + Sync + 'static {
    /// Looks at the first bytes of a connection.
    ///
    /// `seen` is the number of these bytes for which this probe has already answered `NeedMore`; 0 in the first call.
    /// A probe that reads long input, such as a request line, need not read those again. The answer does not depend
    /// on it.
    fn probe(&self, bytes: &[u8], seen: usize) -> Detection;
}

impl<F: Fn(&[u8]) -> Detection + Send + Sync + 'static> Probe for F {
    fn probe(&self, bytes: &[u8], _: usize) -> Detection {
        self(bytes)
    }
}

/// The answer of a [`Probe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detection {
    /// The connection speaks this protocol.
    Match,
    /// The connection does not speak this protocol.
    NoMatch,
    /// The bytes are the beginning of both.
    NeedMore,
}

impl Detection {
    /// Compares the bytes with a prefix that is the same in every connection of a protocol.
    #[must_use]
    pub fn of_prefix(bytes: &[u8], prefix: &[u8]) -> Self {
        let compared = bytes.len().min(prefix.len());
        if bytes[..compared] != prefix[..compared] {
            Detection::NoMatch
        } else if compared < prefix.len() {
            Detection::NeedMore
        } else {
            Detection::Match
        }
    }
}
