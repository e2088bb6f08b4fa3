//! The line protocol between clients and gateway: commands, replies and errors as text.
//!
//! ```text
//!   client ──► USER ann          OK hello ann
//!              SUB news          OK
//!              PUB news rain     OK 2                         queued for 2 clients
//!              PUSH bob hello    OK
//!              PUSH eve hello    ERR no user is called eve
//!                                MSG news bob rain   ◄── published by bob
//!                                PUSH bob hello      ◄── pushed by bob
//!                                MISSED 12           ◄── 12 lines were dropped
//!                                PING                ◄── send a line, or be disconnected
//! ```
//!
//! Commands are case-insensitive. Names of users and topics have at most [`NAME_LIMIT`] letters, digits, `.`, `_`
//! and `-`. A text is the rest of its line; control characters are refused, because a receiver may be a terminal.

use std::fmt;

use thiserror::Error;

/// Maximum length of a user or topic name in bytes.
pub const NAME_LIMIT: usize = 32;

/// A command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCommand<'a> {
    /// Take this name.
    User(&'a str),
    /// Subscribe to this topic.
    Sub(&'a str),
    /// Unsubscribe from this topic.
    Unsub(&'a str),
    /// Publish a text to the subscribers of a topic.
    Pub {
        /// The topic.
        topic: &'a str,
        /// The text.
        text: &'a str,
    },
    /// Send a text to one user.
    Push {
        /// The user.
        user: &'a str,
        /// The text.
        text: &'a str,
    },
    /// Ask for a `PONG`.
    Ping,
    /// The reply to the gateway's `PING`. Any other line also counts as a reply.
    Pong,
    /// List the commands.
    Help,
    /// Disconnect.
    Quit,
}

/// The lines that answer `HELP`, followed by `OK`.
pub const HELP: [&str; 8] = [
    "HELP USER name        take a name; required before SUB, PUB and PUSH",
    "HELP SUB topic        subscribe to a topic",
    "HELP UNSUB topic      unsubscribe from a topic",
    "HELP PUB topic text   send a text to the subscribers of a topic",
    "HELP PUSH user text   send a text to one user",
    "HELP PING             reply PONG",
    "HELP HELP             list the commands",
    "HELP QUIT             disconnect",
];

impl<'a> ClientCommand<'a> {
    /// Parses a line.
    ///
    /// # Errors
    /// [`ParseError`] names what is wrong and what is expected.
    pub fn parse(line: &'a str) -> Result<Self, ParseError> {
        let (word, rest) = split_word(line.trim_ascii_start());
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        if word.is_empty() {
            Err(ParseError::Empty)
        } else if is("USER") {
            Ok(ClientCommand::User(parse_name("USER name", "name", rest)?))
        } else if is("SUB") {
            Ok(ClientCommand::Sub(parse_name("SUB topic", "topic", rest)?))
        } else if is("UNSUB") {
            Ok(ClientCommand::Unsub(parse_name("UNSUB topic", "topic", rest)?))
        } else if is("PUB") {
            let (topic, text) = parse_name_and_text("PUB topic text", "topic", rest)?;
            Ok(ClientCommand::Pub { topic, text })
        } else if is("PUSH") {
            let (user, text) = parse_name_and_text("PUSH user text", "user", rest)?;
            Ok(ClientCommand::Push { user, text })
        } else if is("PING") {
            expect_end("PING", rest).map(|()| ClientCommand::Ping)
        } else if is("PONG") {
            expect_end("PONG", rest).map(|()| ClientCommand::Pong)
        } else if is("HELP") {
            expect_end("HELP", rest).map(|()| ClientCommand::Help)
        } else if is("QUIT") {
            expect_end("QUIT", rest).map(|()| ClientCommand::Quit)
        } else {
            Err(ParseError::Unknown { word: quote_shortened(word) })
        }
    }
}

/// Splits a line into its first word and the rest, without the blanks in between.
fn split_word(line: &str) -> (&str, &str) {
    match line.split_once([' ', '\t']) {
        Some((word, rest)) => (word, rest.trim_ascii_start()),
        None => (line, ""),
    }
}

fn parse_name<'a>(
    usage: &'static str,
    what: &'static str,
    rest: &'a str,
) -> Result<&'a str, ParseError> {
    let (name, more) = split_word(rest);
    check_name(usage, what, name)?;
    if !more.trim_ascii().is_empty() {
        return Err(ParseError::ExtraInput { usage, more: quote_shortened(more) });
    }
    Ok(name)
}

fn parse_name_and_text<'a>(
    usage: &'static str,
    what: &'static str,
    rest: &'a str,
) -> Result<(&'a str, &'a str), ParseError> {
    let (name, text) = split_word(rest);
    check_name(usage, what, name)?;
    if text.is_empty() {
        return Err(ParseError::Missing { usage, what: "text" });
    }
    match text.chars().find(|c| c.is_control() && *c != '\t') {
        Some(control) => Err(ParseError::ControlCharacter { control }),
        None => Ok((name, text)),
    }
}

fn expect_end(usage: &'static str, rest: &str) -> Result<(), ParseError> {
    if rest.trim_ascii().is_empty() {
        return Ok(());
    }
    Err(ParseError::ExtraInput { usage, more: quote_shortened(rest) })
}

fn check_name(usage: &'static str, what: &'static str, name: &str) -> Result<(), ParseError> {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || ".-_".contains(*c);
    if name.is_empty() {
        Err(ParseError::Missing { usage, what })
    } else if name.len() > NAME_LIMIT {
        Err(ParseError::NameTooLong { what, length: name.len() })
    } else if let Some(other) = name.chars().find(|c| !allowed(c)) {
        Err(ParseError::InvalidName { what, other })
    } else {
        Ok(())
    }
}

/// Returns the first 16 characters of a client's input for an error text, with control characters escaped.
fn quote_shortened(said: &str) -> String {
    let mut shown: String = said.chars().take(16).flat_map(char::escape_debug).collect();
    if said.chars().nth(16).is_some() {
        shown.push('…');
    }
    shown
}

/// Why a line is not a command.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    /// The line is empty.
    #[error("empty line; HELP lists the commands")]
    Empty,
    /// The first word is not a command.
    #[error("unknown command {word}; HELP lists the commands")]
    Unknown {
        /// The word.
        word: String,
    },
    /// An argument is missing.
    #[error("the {what} is missing; expected: {usage}")]
    Missing {
        /// The syntax of the command.
        usage: &'static str,
        /// The name of the argument.
        what: &'static str,
    },
    /// The line continues after the last argument.
    #[error("unexpected \"{more}\"; expected: {usage}")]
    ExtraInput {
        /// The syntax of the command.
        usage: &'static str,
        /// The rest of the line, shortened.
        more: String,
    },
    /// A name is too long.
    #[error("the {what} has {length} bytes; at most {NAME_LIMIT} are allowed")]
    NameTooLong {
        /// The name of the argument.
        what: &'static str,
        /// The length of the name in bytes.
        length: usize,
    },
    /// A name contains a character that is not allowed.
    #[error("the {what} contains {other:?}; letters, digits, . _ and - are allowed")]
    InvalidName {
        /// The name of the argument.
        what: &'static str,
        /// The character.
        other: char,
    },
    /// A text contains a control character.
    #[error("the text contains the control character {control:?}")]
    ControlCharacter {
        /// The character.
        control: char,
    },
}

/// A line to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The greeting after the connection.
    Hello,
    /// The command succeeded.
    Ok,
    /// `USER` succeeded with this name.
    Welcome(String),
    /// `PUB` succeeded: the text was queued for this many clients.
    Queued(usize),
    /// The command failed for this reason.
    Err(String),
    /// A text published to a topic.
    Msg {
        /// The topic.
        topic: String,
        /// The user who published it.
        from: String,
        /// The text.
        text: String,
    },
    /// A text sent by `PUSH`.
    Push {
        /// The user who sent it.
        from: String,
        /// The text.
        text: String,
    },
    /// A gap: this many lines were dropped because the outbox was full.
    Missed(u64),
    /// The reply to a client's `PING`.
    Pong,
    /// Sent to an idle client, which must send a line to stay connected.
    Ping,
    /// The last line, with the reason for the disconnect.
    Bye(&'static str),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Hello => f.write_str("HELLO send USER name, or HELP"),
            Reply::Ok => f.write_str("OK"),
            Reply::Welcome(name) => write!(f, "OK hello {name}"),
            Reply::Queued(clients) => write!(f, "OK {clients}"),
            Reply::Err(why) => write!(f, "ERR {why}"),
            Reply::Msg { topic, from, text } => write!(f, "MSG {topic} {from} {text}"),
            Reply::Push { from, text } => write!(f, "PUSH {from} {text}"),
            Reply::Missed(lines) => write!(f, "MISSED {lines}"),
            Reply::Pong => f.write_str("PONG"),
            Reply::Ping => f.write_str("PING"),
            Reply::Bye(why) => write!(f, "BYE {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        ClientCommand::parse(line).unwrap_err().to_string()
    }

    #[test]
    fn commands_are_parsed() {
        let of = [
            ("USER ann", ClientCommand::User("ann")),
            ("user ann", ClientCommand::User("ann")),
            ("  SUB   news  ", ClientCommand::Sub("news")),
            ("UNSUB news", ClientCommand::Unsub("news")),
            (
                "PUB news rain  and sun ",
                ClientCommand::Pub { topic: "news", text: "rain  and sun " },
            ),
            ("PUSH bob\thi", ClientCommand::Push { user: "bob", text: "hi" }),
            ("PING", ClientCommand::Ping),
            ("pong ", ClientCommand::Pong),
            ("HELP", ClientCommand::Help),
            ("quit", ClientCommand::Quit),
        ];
        for (line, command) in of {
            assert_eq!(ClientCommand::parse(line), Ok(command), "{line:?}");
        }
    }

    #[test]
    fn parse_errors_name_what_is_expected() {
        let of = [
            ("", "empty line; HELP lists the commands"),
            ("   ", "empty line; HELP lists the commands"),
            ("HOLA", "unknown command HOLA; HELP lists the commands"),
            ("USER", "the name is missing; expected: USER name"),
            ("SUB ", "the topic is missing; expected: SUB topic"),
            ("PUB", "the topic is missing; expected: PUB topic text"),
            ("PUB news", "the text is missing; expected: PUB topic text"),
            ("PUB news  ", "the text is missing; expected: PUB topic text"),
            ("PUSH bob", "the text is missing; expected: PUSH user text"),
            ("USER ann lee", "unexpected \"lee\"; expected: USER name"),
            ("QUIT now", "unexpected \"now\"; expected: QUIT"),
            ("USER añn", "the name contains 'ñ'; letters, digits, . _ and - are allowed"),
            ("SUB a/b", "the topic contains '/'; letters, digits, . _ and - are allowed"),
            ("PUB news \u{1b}[2J", "the text contains the control character '\\u{1b}'"),
        ];
        for (line, expected) in of {
            assert_eq!(error(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_name_has_at_most_32_bytes() {
        let longest = "x".repeat(NAME_LIMIT);
        assert_eq!(
            ClientCommand::parse(&format!("USER {longest}")),
            Ok(ClientCommand::User(&longest))
        );
        assert_eq!(
            error(&format!("SUB {longest}y")),
            "the topic has 33 bytes; at most 32 are allowed"
        );
    }

    #[test]
    fn errors_quote_input_shortened_and_without_control_characters() {
        assert_eq!(error("\u{1b}[31m"), "unknown command \\u{1b}[31m; HELP lists the commands");
        let long = error(&"x".repeat(1000));
        assert_eq!(long, "unknown command xxxxxxxxxxxxxxxx…; HELP lists the commands");
    }

    #[test]
    fn replies_are_lines() {
        let msg = Reply::Msg { topic: "news".into(), from: "ann".into(), text: "it rains".into() };
        assert_eq!(msg.to_string(), "MSG news ann it rains");
        assert_eq!(Reply::Queued(2).to_string(), "OK 2");
        assert_eq!(Reply::Err("no".into()).to_string(), "ERR no");
        assert_eq!(Reply::Missed(3).to_string(), "MISSED 3");
    }
}
