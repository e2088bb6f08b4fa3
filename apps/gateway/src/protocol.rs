//! What clients say, and what they are told: lines of text, nothing else here.
//!
//! ```text
//!   client ──► USER ann          OK hello ann
//!              SUB news          OK
//!              PUB news rain     OK 2                         2 clients will get it
//!              PUSH bob hello    OK
//!              PUSH eve hello    ERR nobody here is called eve
//!                                MSG news bob rain   ◄── what bob published
//!                                PUSH bob hello      ◄── what bob pushed
//!                                MISSED 12           ◄── so many lines did not fit
//!                                PING                ◄── say something, or be disconnected
//! ```
//!
//! Commands are understood in small letters too. Names of users and topics have at most
//! [`NAME_LIMIT`] letters, digits, `.`, `_` and `-`; a text is what is left of its line, without control
//! characters: whoever reads it may be a terminal.

use std::fmt;

use thiserror::Error;

/// How long the name of a user or topic may be, in bytes.
pub const NAME_LIMIT: usize = 32;

/// Something a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// To be known by this name.
    User(&'a str),
    /// To get what is published to this topic.
    Sub(&'a str),
    /// To get it no more.
    Unsub(&'a str),
    /// To publish a text.
    Pub {
        /// To whoever is subscribed to this topic.
        topic: &'a str,
        /// The text.
        text: &'a str,
    },
    /// To push a text.
    Push {
        /// To this user.
        user: &'a str,
        /// The text.
        text: &'a str,
    },
    /// To hear whether the gateway is there.
    Ping,
    /// To say that the client is: the answer to a `PING`. Any other line does as well.
    Pong,
    /// To be told which commands there are.
    Help,
    /// To leave.
    Quit,
}

/// What `HELP` is answered with, before an `OK`.
pub const HELP: [&str; 8] = [
    "HELP USER name        take a name: first of all",
    "HELP SUB topic        get what is published to a topic",
    "HELP UNSUB topic      get it no more",
    "HELP PUB topic text   send a text to whoever is subscribed to a topic",
    "HELP PUSH user text   send a text to one user",
    "HELP PING             is answered with PONG",
    "HELP HELP             these lines",
    "HELP QUIT             leave",
];

impl<'a> Command<'a> {
    /// Understands a line.
    ///
    /// # Errors
    /// [`Misunderstood`], which says what was wrong and what is expected.
    pub fn parse(line: &'a str) -> Result<Self, Misunderstood> {
        let (word, rest) = cut(line.trim_ascii_start());
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        if word.is_empty() {
            Err(Misunderstood::Empty)
        } else if is("USER") {
            Ok(Command::User(only_name("USER name", "name", rest)?))
        } else if is("SUB") {
            Ok(Command::Sub(only_name("SUB topic", "topic", rest)?))
        } else if is("UNSUB") {
            Ok(Command::Unsub(only_name("UNSUB topic", "topic", rest)?))
        } else if is("PUB") {
            let (topic, text) = name_and_text("PUB topic text", "topic", rest)?;
            Ok(Command::Pub { topic, text })
        } else if is("PUSH") {
            let (user, text) = name_and_text("PUSH user text", "user", rest)?;
            Ok(Command::Push { user, text })
        } else if is("PING") {
            nothing("PING", rest).map(|()| Command::Ping)
        } else if is("PONG") {
            nothing("PONG", rest).map(|()| Command::Pong)
        } else if is("HELP") {
            nothing("HELP", rest).map(|()| Command::Help)
        } else if is("QUIT") {
            nothing("QUIT", rest).map(|()| Command::Quit)
        } else {
            Err(Misunderstood::Unknown { word: shorten(word) })
        }
    }
}

/// Cuts off the first word, and the spaces behind it.
fn cut(line: &str) -> (&str, &str) {
    match line.split_once([' ', '\t']) {
        Some((word, rest)) => (word, rest.trim_ascii_start()),
        None => (line, ""),
    }
}

fn only_name<'a>(
    usage: &'static str,
    what: &'static str,
    rest: &'a str,
) -> Result<&'a str, Misunderstood> {
    let (name, more) = cut(rest);
    check_name(usage, what, name)?;
    if !more.trim_ascii().is_empty() {
        return Err(Misunderstood::Surplus { usage, more: shorten(more) });
    }
    Ok(name)
}

fn name_and_text<'a>(
    usage: &'static str,
    what: &'static str,
    rest: &'a str,
) -> Result<(&'a str, &'a str), Misunderstood> {
    let (name, text) = cut(rest);
    check_name(usage, what, name)?;
    if text.is_empty() {
        return Err(Misunderstood::Missing { usage, what: "text" });
    }
    match text.chars().find(|c| c.is_control() && *c != '\t') {
        Some(control) => Err(Misunderstood::Control { control }),
        None => Ok((name, text)),
    }
}

fn nothing(usage: &'static str, rest: &str) -> Result<(), Misunderstood> {
    if rest.trim_ascii().is_empty() {
        return Ok(());
    }
    Err(Misunderstood::Surplus { usage, more: shorten(rest) })
}

fn check_name(usage: &'static str, what: &'static str, name: &str) -> Result<(), Misunderstood> {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || ".-_".contains(*c);
    if name.is_empty() {
        Err(Misunderstood::Missing { usage, what })
    } else if name.len() > NAME_LIMIT {
        Err(Misunderstood::NameTooLong { what, length: name.len() })
    } else if let Some(other) = name.chars().find(|c| !allowed(c)) {
        Err(Misunderstood::BadName { what, other })
    } else {
        Ok(())
    }
}

/// What is told back of what a client said: not the whole of it, and nothing that moves a cursor.
fn shorten(said: &str) -> String {
    let mut shown: String = said.chars().take(16).flat_map(char::escape_debug).collect();
    if said.chars().nth(16).is_some() {
        shown.push('…');
    }
    shown
}

/// A line is no command.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Misunderstood {
    /// There is nothing in it.
    #[error("an empty line; HELP tells what is understood")]
    Empty,
    /// It begins with no word that is known.
    #[error("{word} is no command; HELP tells which there are")]
    Unknown {
        /// The word.
        word: String,
    },
    /// Something is not there.
    #[error("the {what} is missing; expected: {usage}")]
    Missing {
        /// How the command is used.
        usage: &'static str,
        /// What is missing.
        what: &'static str,
    },
    /// There is more than there may be.
    #[error("\"{more}\" is too much; expected: {usage}")]
    Surplus {
        /// How the command is used.
        usage: &'static str,
        /// What follows it.
        more: String,
    },
    /// A name is too long.
    #[error("the {what} has {length} bytes and may have {NAME_LIMIT}")]
    NameTooLong {
        /// Of what.
        what: &'static str,
        /// How long it is.
        length: usize,
    },
    /// A name has something in it that it may not.
    #[error("the {what} has a {other:?} in it; letters, digits, . _ and - are allowed")]
    BadName {
        /// Of what.
        what: &'static str,
        /// The character.
        other: char,
    },
    /// A text has something in it that would not be text to a terminal.
    #[error("the text has the control character {control:?} in it")]
    Control {
        /// The character.
        control: char,
    },
}

/// What a client is told: one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The first line of all.
    Hello,
    /// It is done.
    Ok,
    /// The name is taken.
    Welcome(String),
    /// A text was put into the queues of so many clients.
    Queued(usize),
    /// It was not done, and why.
    Err(String),
    /// What was published to a topic.
    Msg {
        /// The topic.
        topic: String,
        /// Who published it.
        from: String,
        /// The text.
        text: String,
    },
    /// What was pushed.
    Push {
        /// Who pushed it.
        from: String,
        /// The text.
        text: String,
    },
    /// So many lines are lost, here: the queue was full.
    Missed(u64),
    /// The gateway is there.
    Pong,
    /// Is the client?
    Ping,
    /// The last line of all, and why.
    Bye(&'static str),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Hello => f.write_str("HELLO say USER name, or HELP"),
            Answer::Ok => f.write_str("OK"),
            Answer::Welcome(name) => write!(f, "OK hello {name}"),
            Answer::Queued(clients) => write!(f, "OK {clients}"),
            Answer::Err(why) => write!(f, "ERR {why}"),
            Answer::Msg { topic, from, text } => write!(f, "MSG {topic} {from} {text}"),
            Answer::Push { from, text } => write!(f, "PUSH {from} {text}"),
            Answer::Missed(lines) => write!(f, "MISSED {lines}"),
            Answer::Pong => f.write_str("PONG"),
            Answer::Ping => f.write_str("PING"),
            Answer::Bye(why) => write!(f, "BYE {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        Command::parse(line).unwrap_err().to_string()
    }

    #[test]
    fn commands_are_understood() {
        let of = [
            ("USER ann", Command::User("ann")),
            ("user ann", Command::User("ann")),
            ("  SUB   news  ", Command::Sub("news")),
            ("UNSUB news", Command::Unsub("news")),
            ("PUB news rain  and sun ", Command::Pub { topic: "news", text: "rain  and sun " }),
            ("PUSH bob\thi", Command::Push { user: "bob", text: "hi" }),
            ("PING", Command::Ping),
            ("pong ", Command::Pong),
            ("HELP", Command::Help),
            ("quit", Command::Quit),
        ];
        for (line, command) in of {
            assert_eq!(Command::parse(line), Ok(command), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_command_is_told_what_is_expected() {
        let of = [
            ("", "an empty line; HELP tells what is understood"),
            ("   ", "an empty line; HELP tells what is understood"),
            ("HOLA", "HOLA is no command; HELP tells which there are"),
            ("USER", "the name is missing; expected: USER name"),
            ("SUB ", "the topic is missing; expected: SUB topic"),
            ("PUB", "the topic is missing; expected: PUB topic text"),
            ("PUB news", "the text is missing; expected: PUB topic text"),
            ("PUB news  ", "the text is missing; expected: PUB topic text"),
            ("PUSH bob", "the text is missing; expected: PUSH user text"),
            ("USER ann lee", "\"lee\" is too much; expected: USER name"),
            ("QUIT now", "\"now\" is too much; expected: QUIT"),
            ("USER añn", "the name has a 'ñ' in it; letters, digits, . _ and - are allowed"),
            ("SUB a/b", "the topic has a '/' in it; letters, digits, . _ and - are allowed"),
            ("PUB news \u{1b}[2J", "the text has the control character '\\u{1b}' in it"),
        ];
        for (line, told) in of {
            assert_eq!(error(line), told, "{line:?}");
        }
    }

    #[test]
    fn a_name_has_at_most_32_bytes() {
        let longest = "x".repeat(NAME_LIMIT);
        assert_eq!(Command::parse(&format!("USER {longest}")), Ok(Command::User(&longest)));
        assert_eq!(error(&format!("SUB {longest}y")), "the topic has 33 bytes and may have 32");
    }

    #[test]
    fn what_was_said_is_told_back_in_short_and_without_control_characters() {
        assert_eq!(error("\u{1b}[31m"), "\\u{1b}[31m is no command; HELP tells which there are");
        let long = error(&"x".repeat(1000));
        assert_eq!(long, "xxxxxxxxxxxxxxxx… is no command; HELP tells which there are");
    }

    #[test]
    fn answers_are_lines() {
        let msg = Answer::Msg { topic: "news".into(), from: "ann".into(), text: "it rains".into() };
        assert_eq!(msg.to_string(), "MSG news ann it rains");
        assert_eq!(Answer::Queued(2).to_string(), "OK 2");
        assert_eq!(Answer::Err("no".into()).to_string(), "ERR no");
        assert_eq!(Answer::Missed(3).to_string(), "MISSED 3");
    }
}
