//! The errors that clients are told, with their codes: the table of `docs/GATEWAY.md`.

use std::borrow::Cow;
use std::fmt;

/// The kinds of errors. Codes and names are part of the protocol, and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A message is not JSON, or no object and no array of objects.
    Malformed,
    /// There is no command of this name.
    UnknownCommand,
    /// A field is missing or of the wrong type.
    InvalidField,
    /// A command came at a time at which it is not allowed.
    WrongOrder,
    /// A message, body or line is over its limit.
    MessageTooLarge,
    /// More commands or publications than a batch may have.
    BatchTooLarge,
    /// A topic or filter is malformed.
    InvalidTopic,
    /// A topic or filter is over its limits.
    TopicTooLong,
    /// The limit of subscriptions of a client is reached.
    TooManySubscriptions,
    /// There is no such subscription.
    NotSubscribed,
    /// The client has this subscription.
    AlreadySubscribed,
    /// More publications than the rate of the client allows.
    RateExceeded,
    /// Another client has this name.
    NameTaken,
    /// No client has this name.
    NoSuchUser,
    /// The gateway requires a token.
    TokenRequired,
    /// The token cannot be verified.
    TokenInvalid,
    /// The token has expired.
    TokenExpired,
    /// The token does not permit this, or the admin key is missing.
    NotPermitted,
    /// The limit of clients, or of connections of an address.
    TooManyClients,
    /// The queue of the client was full, and its policy is to disconnect.
    ClientTooSlow,
    /// The engine does not answer.
    EngineUnavailable,
    /// The gateway drains.
    Closing,
}

impl ErrorCode {
    /// All codes, in the order of their numbers.
    pub const ALL: [Self; 22] = [
        Self::Malformed,
        Self::UnknownCommand,
        Self::InvalidField,
        Self::WrongOrder,
        Self::MessageTooLarge,
        Self::BatchTooLarge,
        Self::InvalidTopic,
        Self::TopicTooLong,
        Self::TooManySubscriptions,
        Self::NotSubscribed,
        Self::AlreadySubscribed,
        Self::RateExceeded,
        Self::NameTaken,
        Self::NoSuchUser,
        Self::TokenRequired,
        Self::TokenInvalid,
        Self::TokenExpired,
        Self::NotPermitted,
        Self::TooManyClients,
        Self::ClientTooSlow,
        Self::EngineUnavailable,
        Self::Closing,
    ];

    /// Returns the number, the name, and the status of HTTP.
    const fn facts(self) -> (u16, &'static str, u16) {
        match self {
            Self::Malformed => (100, "malformed", 400),
            Self::UnknownCommand => (101, "unknown_command", 404),
            Self::InvalidField => (102, "invalid_field", 400),
            Self::WrongOrder => (103, "wrong_order", 409),
            Self::MessageTooLarge => (104, "message_too_large", 413),
            Self::BatchTooLarge => (105, "batch_too_large", 413),
            Self::InvalidTopic => (106, "invalid_topic", 400),
            Self::TopicTooLong => (107, "topic_too_long", 400),
            Self::TooManySubscriptions => (108, "too_many_subscriptions", 429),
            Self::NotSubscribed => (109, "not_subscribed", 404),
            Self::AlreadySubscribed => (110, "already_subscribed", 409),
            Self::RateExceeded => (111, "rate_exceeded", 429),
            Self::NameTaken => (112, "name_taken", 409),
            Self::NoSuchUser => (113, "no_such_user", 404),
            Self::TokenRequired => (120, "token_required", 401),
            Self::TokenInvalid => (121, "token_invalid", 401),
            Self::TokenExpired => (122, "token_expired", 401),
            Self::NotPermitted => (123, "not_permitted", 403),
            Self::TooManyClients => (130, "too_many_clients", 503),
            Self::ClientTooSlow => (131, "client_too_slow", 503),
            Self::EngineUnavailable => (140, "engine_unavailable", 503),
            Self::Closing => (141, "closing", 503),
        }
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.facts().0
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().1
    }

    /// Returns the status of an HTTP answer with this error.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        self.facts().2
    }
}

/// An error for a client: its kind, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayError {
    /// The kind.
    pub code: ErrorCode,
    /// The cause, and what to do about it. Quotes nothing of other clients.
    pub message: Cow<'static, str>,
}

impl GatewayError {
    /// Creates an error.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code.name(), self.code.number(), self.message)
    }
}

impl std::error::Error for GatewayError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g01_every_code_is_in_the_guide_with_its_name_and_status() {
        let guide = include_str!("../../../docs/GATEWAY.md");
        for code in ErrorCode::ALL {
            let row = format!("| {} | `{}` |", code.number(), code.name());
            let line = guide.lines().find(|line| line.starts_with(&row));
            let line = line.unwrap_or_else(|| panic!("{row} is missing"));
            let status = line.trim_end_matches('|').rsplit('|').next().unwrap().trim();
            assert!(status.is_empty() || status == code.http_status().to_string(), "{line}");
        }
    }
}
