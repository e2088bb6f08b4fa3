//! The errors that Redis answers with, and what follows from each.

use crate::engine::EngineError;

/// The name of the engine.
pub(in crate::engine::redis) const NAME: &str = "redis";

/// The consequence of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::redis) enum ErrorConsequence {
    /// The server has forgotten the script; the call is sent again with its text.
    SendText,
    /// The data are on another server: `host:port`.
    Redirect(String),
    /// The connection is of no use now; a new one may be.
    Reconnect,
    /// The call fails, the connection stays: the server is busy, or accepts no changes for now.
    Unavailable,
    /// The call fails, the connection stays: it would fail again.
    Refused,
}

/// Returns the consequence of an error.
pub(in crate::engine::redis) fn consequence_of(error: &str) -> ErrorConsequence {
    let mut words = error.split(' ');
    let code = match words.next() {
        // Some errors of scripts have the code of the inner error as the second word.
        Some("ERR") if error.starts_with("ERR WRONGRUN") => "WRONGRUN",
        code => code.unwrap_or_default(),
    };
    match code {
        "NOSCRIPT" => ErrorConsequence::SendText,
        "MOVED" => match words.nth(1) {
            Some(address) => ErrorConsequence::Redirect(address.to_owned()),
            None => ErrorConsequence::Reconnect,
        },
        // ASK: the slot is on its way to another node, key by key, and the script would take keys that have not arrived for
        // new ones: the move fails (BUSYKEY), or replaces them. Gateways are subscribed at the old node until the end, and would
        // not hear what the new one publishes.
        "READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "ASK" | "WRONGRUN"
        | "NOAUTH" => ErrorConsequence::Reconnect,
        "BUSY" | "OOM" | "MISCONF" | "NOREPLICAS" => ErrorConsequence::Unavailable,
        // Inside of a script, the text of the inner error stands behind that of the script.
        _ if error.contains("READONLY") || error.contains("CLUSTERDOWN") => {
            ErrorConsequence::Reconnect
        }
        _ if error.contains("attempted to access a non local key") => ErrorConsequence::Reconnect,
        _ => ErrorConsequence::Refused,
    }
}

/// Returns the error of an engine that does not answer.
pub(in crate::engine::redis) fn unavailable(reason: impl Into<String>) -> EngineError {
    EngineError::Unavailable { engine: NAME, reason: reason.into() }
}

/// Returns the error of an engine that refuses.
pub(in crate::engine::redis) fn refused(reason: impl Into<String>) -> EngineError {
    EngineError::Refused { engine: NAME, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_errors_of_redis_have_the_consequences_that_help() {
        use ErrorConsequence::{Reconnect, Redirect, Refused, SendText, Unavailable};
        for (error, expected) in [
            ("NOSCRIPT No matching script.", SendText),
            ("MOVED 3999 127.0.0.1:6381", Redirect("127.0.0.1:6381".to_owned())),
            ("ASK 3999 127.0.0.1:6381", Reconnect),
            ("READONLY You can't write against a read only replica.", Reconnect),
            ("CLUSTERDOWN Hash slot not served", Reconnect),
            ("WRONGRUN the data belong to another run of the server", Reconnect),
            ("ERR WRONGRUN the data belong to another run of the server", Reconnect),
            ("LOADING Redis is loading the dataset in memory", Reconnect),
            ("ERR Script attempted to access a non local key in a cluster node", Reconnect),
            ("BUSY Redis is busy running a script.", Unavailable),
            ("OOM command not allowed when used memory > 'maxmemory'.", Unavailable),
            ("NOREPLICAS Not enough good replicas to write.", Unavailable),
            ("NOPERM User gw has no permissions", Refused),
            ("", Refused),
        ] {
            assert_eq!(consequence_of(error), expected, "{error}");
        }
    }
}
