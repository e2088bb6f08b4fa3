//! How a client of lines is read and written to.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{Ctx, Msg};

use super::command::{AnswerForm, ClientLine, read_line};
use super::text;
use crate::client_protocol::ClientProtocol;
use crate::error_code::GatewayError;
use crate::protocols::channel_client::{ClientWire, ClosingReason, WireAnswer};
use crate::session::Session;
use crate::session::command::GatewayCommand;
use crate::session::connection::CommandId;
use crate::session::core::GatewayCore;
use crate::session::delivery::Delivery;
use crate::session::reply::{GatewayReply, Push};

/// Time limit for writing what waits for a client that is being disconnected.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);

/// The tag of the timer at whose end the channel is closed.
pub(super) const CLOSE_DEADLINE: u32 = 0;

/// Lines of text. Written as bytes with their ends.
pub(super) struct LineWire {
    core: Arc<GatewayCore>,
    /// Why the connection ends, once it is known.
    ending: Cell<&'static str>,
}

/// An input: a line, or what is wrong with one, or the end.
#[derive(Debug)]
pub(super) enum LineInput {
    Line(String),
    Error(GatewayError),
    /// No more lines come, for this reason. What came before is answered first.
    End(&'static str),
}

impl LineWire {
    pub(super) fn new(core: &Arc<GatewayCore>) -> Self {
        Self { core: core.clone(), ending: Cell::new("") }
    }

    /// Ends the connection behind the answers to all commands before: by the answer to one more.
    fn end(&self, session: &Session, reason: &'static str) {
        if self.ending.replace(reason).is_empty() {
            pass(session, AnswerForm::End, Ok(GatewayCommand::Ping));
        }
    }
}

/// Passes a command to the session, whose answer has this form.
fn pass(session: &Session, form: AnswerForm, command: Result<GatewayCommand, GatewayError>) {
    session.execute(Some(form as CommandId), command);
}

impl ClientWire for LineWire {
    type Input = LineInput;

    const PROTOCOL: ClientProtocol = ClientProtocol::Lines;

    fn execute(&self, session: &Session, input: LineInput) {
        let line = match input {
            LineInput::Line(line) => read_line(&line, self.core.limits()),
            LineInput::Error(error) => Err(error),
            LineInput::End(reason) => return self.end(session, reason),
        };
        match line {
            Ok(ClientLine::Command(command, form)) => pass(session, form, Ok(command)),
            Ok(ClientLine::Pong) => {}
            Ok(ClientLine::Help) => pass(session, AnswerForm::Help, Ok(GatewayCommand::Ping)),
            Ok(ClientLine::Quit) => self.end(session, "goodbye"),
            Err(error) => pass(session, AnswerForm::Ok, Err(error)),
        }
    }

    fn answer(
        &self,
        id: Option<CommandId>,
        answer: Result<&GatewayReply, &GatewayError>,
    ) -> WireAnswer {
        match AnswerForm::of_id(id) {
            AnswerForm::End => WireAnswer::End(self.ending.get()),
            form => {
                let (line, bytes) = line_message(text::answer(form, answer));
                WireAnswer::Message(line, bytes)
            }
        }
    }

    fn push(&self, push: &Push) -> Option<(Msg, usize)> {
        text::push(push).map(line_message)
    }

    fn publication(&self, delivery: &Delivery) -> Msg {
        delivery.line(|publication| text::message(publication).into()).clone().into()
    }

    /// Writes the last line, and shuts down the output; the handler closes the channel when the client has done so too.
    fn close(&self, ctx: &Ctx<'_>, reason: &ClosingReason) {
        let ClosingReason { error, may_reconnect } = reason;
        let push = Push::Closing { error: error.clone(), may_reconnect: *may_reconnect };
        if let Some((line, _)) = self.push(&push) {
            ctx.write(line);
        }
        ctx.flush();
        ctx.schedule(FLUSH_LIMIT, CLOSE_DEADLINE);
        ctx.shutdown_output();
    }
}

fn line_message(text: String) -> (Msg, usize) {
    let bytes = text.len();
    (Bytes::from(text).into(), bytes)
}
