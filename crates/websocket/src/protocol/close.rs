//! Why a connection is closed, as a Close frame says it.

use std::fmt;

/// A status code of a Close frame (RFC 6455, section 7.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// An endpoint goes away: a server that shuts down, a page that is left.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer has violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// The peer has sent data of a kind that is not accepted.
    pub const UNSUPPORTED: Self = Self(1003);
    /// The peer has sent data that is not what its type says: a text that is not UTF-8.
    pub const INVALID_DATA: Self = Self(1007);
    /// The peer has violated a policy.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// The peer has sent a message that is too long.
    pub const TOO_BIG: Self = Self(1009);
    /// The server has not negotiated an extension that the client needs.
    pub const MISSING_EXTENSION: Self = Self(1010);
    /// The endpoint has failed.
    pub const INTERNAL_ERROR: Self = Self(1011);
    /// The service restarts: the client may connect again.
    pub const SERVICE_RESTART: Self = Self(1012);
    /// The service is overloaded: the client may try again later.
    pub const TRY_AGAIN_LATER: Self = Self(1013);
    /// The server behind this gateway has failed.
    pub const BAD_GATEWAY: Self = Self(1014);

    /// Returns the code if a Close frame may have it: 1000 to 1003, 1007 to 1014, and 3000 to 4999, which libraries
    /// (3000) and applications (4000) define.
    #[must_use]
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(code)),
            _ => None,
        }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloseCode({})", self.0)
    }
}

/// The reason of a close: a code, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    code: CloseCode,
    text: String,
}

impl CloseReason {
    /// The most bytes of a text: a control frame has 125, of which the code takes two.
    pub const MAX_TEXT: usize = 123;

    /// Returns a reason. Of a text that is too long the first [`MAX_TEXT`](Self::MAX_TEXT) bytes are kept, or fewer so
    /// that no character is cut.
    #[must_use]
    pub fn new(code: CloseCode, text: impl Into<String>) -> Self {
        let mut text = text.into();
        text.truncate(text.floor_char_boundary(Self::MAX_TEXT));
        Self { code, text }
    }

    /// Returns the code.
    #[must_use]
    pub fn code(&self) -> CloseCode {
        self.code
    }

    /// Returns the text; empty if there is none.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<CloseCode> for CloseReason {
    fn from(code: CloseCode) -> Self {
        Self { code, text: String::new() }
    }
}

impl fmt::Display for CloseReason {
    /// Writes the code, and the text quoted: the peer has chosen it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.as_str() {
            "" => write!(f, "{}", self.code),
            text => write!(f, "{} {text:?}", self.code),
        }
    }
}
