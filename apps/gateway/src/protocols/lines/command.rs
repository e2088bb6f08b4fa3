//! The commands in lines.

use crate::engine::publication::PublicationPayload;
use crate::error_code::{ErrorCode, GatewayError};
use crate::protocols::json::fields::{invalid, shown};
use crate::protocols::json::items;
use crate::session::command::{GatewayCommand, PublishItem};
use crate::session::limits::GatewayLimits;

/// The lines that answer `HELP`, before the `OK`.
pub(super) const HELP: [&str; 12] = [
    "HELP USER name            take a name that others see",
    "HELP AUTH token           prove who you are, where the gateway requires it",
    "HELP SUB topic [since]    subscribe; with a position, get what was published after it",
    "HELP UNSUB topic          end a subscription",
    "HELP PUB topic text       publish a text",
    "HELP PUSH user text       send a text to one user",
    "HELP HISTORY topic [since] read what was published",
    "HELP PRESENCE topic       list who subscribes to a topic",
    "HELP PING                 reply PONG",
    "HELP PONG                 the reply to a PING of the gateway",
    "HELP HELP                 list the commands",
    "HELP QUIT                 disconnect",
];

/// A line of a client.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClientLine {
    /// A command for the session, and how its answer is written.
    Command(GatewayCommand, AnswerForm),
    /// The reply to the gateway's `PING`. Any other line also counts as a reply.
    Pong,
    Help,
    Quit,
}

/// How an answer is written. Its number is the id of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// `OK`, with what the reply has.
    Ok = 0,
    /// `PONG`.
    Pong = 1,
    /// The lines of the help, then `OK`.
    Help = 2,
    /// No answer: everything before was answered, and the connection ends.
    End = 3,
}

impl AnswerForm {
    /// Returns the form with this number.
    pub(super) fn of_id(id: Option<u64>) -> Self {
        let forms = [Self::Ok, Self::Pong, Self::Help, Self::End];
        forms.into_iter().find(|form| id == Some(*form as u64)).unwrap_or(Self::Ok)
    }
}

/// Reads a line.
///
/// # Errors
/// `malformed`, `unknown_command`, `invalid_field`, `invalid_topic`, `topic_too_long`.
pub(super) fn read_line(line: &str, limits: &GatewayLimits) -> Result<ClientLine, GatewayError> {
    let (word, rest) = split_word(line.trim_ascii_start());
    let mut words = Arguments { rest };
    let line = match word.to_ascii_uppercase().as_str() {
        "" => {
            let message = "an empty line; HELP lists the commands";
            return Err(GatewayError::new(ErrorCode::Malformed, message));
        }
        "USER" => {
            let name = Some(words.next("USER name")?.to_owned());
            command(GatewayCommand::Connect { token: None, name })
        }
        "AUTH" => {
            let token = Some(words.next("AUTH token")?.to_owned());
            command(GatewayCommand::Connect { token, name: None })
        }
        "SUB" => {
            let filter = items::filter(words.next("SUB topic [since]")?, limits)?;
            let since = words.optional().map(items::position).transpose()?;
            command(GatewayCommand::Subscribe { filter, since, presence: false })
        }
        "UNSUB" => {
            let filter = items::filter(words.next("UNSUB topic")?, limits)?;
            command(GatewayCommand::Unsubscribe { filter })
        }
        "PUB" => {
            let topic = items::topic(words.next("PUB topic text")?, limits)?;
            let payload = PublicationPayload::Text(words.text("PUB topic text")?.into());
            command(GatewayCommand::Publish(PublishItem { topic, payload }))
        }
        "PUSH" => {
            let user = words.next("PUSH user text")?.to_owned();
            let text = words.text("PUSH user text")?.to_owned();
            command(GatewayCommand::PushToUser { user, text })
        }
        "HISTORY" => {
            let filter = items::filter(words.next("HISTORY topic [since]")?, limits)?;
            let since = words.optional().map(items::position).transpose()?;
            command(GatewayCommand::History { filter, since, limit: None })
        }
        "PRESENCE" => {
            let topic = items::topic(words.next("PRESENCE topic")?, limits)?;
            command(GatewayCommand::Presence { topic })
        }
        "PING" => ClientLine::Command(GatewayCommand::Ping, AnswerForm::Pong),
        "PONG" => ClientLine::Pong,
        "HELP" => ClientLine::Help,
        "QUIT" => ClientLine::Quit,
        _ => {
            let message = format!("there is no command {}; HELP lists the commands", shown(word));
            return Err(GatewayError::new(ErrorCode::UnknownCommand, message));
        }
    };
    words.end()?;
    Ok(line)
}

fn command(command: GatewayCommand) -> ClientLine {
    ClientLine::Command(command, AnswerForm::Ok)
}

/// The rest of a line, behind the command.
struct Arguments<'a> {
    rest: &'a str,
}

impl<'a> Arguments<'a> {
    fn next(&mut self, usage: &str) -> Result<&'a str, GatewayError> {
        self.optional().ok_or_else(|| invalid(format!("an argument is missing; expected: {usage}")))
    }

    fn optional(&mut self) -> Option<&'a str> {
        let (word, rest) = split_word(self.rest);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Takes the rest as a text.
    fn text(&mut self, usage: &str) -> Result<&'a str, GatewayError> {
        let text = std::mem::take(&mut self.rest);
        match text.is_empty() {
            true => Err(invalid(format!("the text is missing; expected: {usage}"))),
            false => Ok(text),
        }
    }

    fn end(self) -> Result<(), GatewayError> {
        match self.rest.trim_ascii() {
            "" => Ok(()),
            more => Err(invalid(format!("unexpected {} at the end of the line", shown(more)))),
        }
    }
}

/// Splits a line into its first word and the rest, without the blanks between.
fn split_word(line: &str) -> (&str, &str) {
    match line.split_once([' ', '\t']) {
        Some((word, rest)) => (word, rest.trim_ascii_start()),
        None => (line, ""),
    }
}
