//! Executes the commands of one client on a business thread, never on an event loop.
//!
//! A session is an offloaded handler: lines reach it in order, one at a time, and its replies go back in order. While
//! a session is busy, at most one read round of input is queued for it.

use std::sync::{Arc, Mutex};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{Draining, HalfClosed, HandlerResult, Msg, RemoteCtx, RemoteHandler};
use waterwheel::codec::{LineTooLong, LineUnfinished, NotUtf8};
use waterwheel::executor::Error;
use waterwheel::handlers::IdleEvent;

use crate::client::{DeliveryOutcome, GatewayClient};
use crate::drain_gate::DrainGate;
use crate::line_counters::LineCounters;
use crate::outbox::Outbox;
use crate::outbox_writer::FinalLine;
use crate::protocol::{ClientCommand, HELP, Reply};
use crate::registry::{RegisteredClient, Registry, RegistryError};

/// The state shared by all sessions.
#[derive(Debug)]
pub struct GatewayState {
    /// The connected clients.
    pub registry: Arc<Registry>,
    /// Counts commands in progress.
    pub gate: DrainGate,
    /// Counts lines.
    pub traffic: Arc<LineCounters>,
}

/// The session of one client.
#[derive(Debug)]
pub struct Session {
    state: Arc<GatewayState>,
    outbox: Arc<Mutex<Outbox>>,
    /// Set while the client is registered: from the connection until it is disconnected.
    member: Option<RegisteredClient>,
}

impl Session {
    /// Creates the session of the client with this outbox.
    #[must_use]
    pub fn new(state: Arc<GatewayState>, outbox: Arc<Mutex<Outbox>>) -> Self {
        Self { state, outbox, member: None }
    }

    /// Executes a command. Lines after `QUIT` are ignored.
    fn execute_line(&mut self, ctx: &RemoteCtx, line: &str) {
        let state = self.state.clone();
        let Some(member) = &mut self.member else { return };
        state.traffic.line_in();
        // Held until the command is answered: `Gateway::drain` waits for it.
        let Some(_command) = state.gate.enter() else {
            return reply(ctx, &Reply::Err(CommandError::Closing.to_string()));
        };
        match ClientCommand::parse(line) {
            Ok(ClientCommand::Quit) => self.disconnect(ctx, Reply::Bye("goodbye")),
            Ok(ClientCommand::Pong) => {}
            Ok(command) => {
                if command == ClientCommand::Help {
                    HELP.iter().for_each(|line| ctx.write(*line));
                }
                let result = state.execute(command, member);
                reply(ctx, &result.unwrap_or_else(|error| Reply::Err(error.to_string())));
            }
            Err(error) => reply(ctx, &Reply::Err(error.to_string())),
        }
    }

    /// Disconnects the client after its queued lines and this last one.
    fn disconnect(&mut self, ctx: &RemoteCtx, last: Reply) {
        if self.member.take().is_some() {
            ctx.write_and_flush(FinalLine(last.to_string()));
        }
    }
}

impl GatewayState {
    fn execute(
        &self,
        command: ClientCommand<'_>,
        member: &mut RegisteredClient,
    ) -> Result<Reply, CommandError> {
        let from = member.name().ok_or(CommandError::NoName);
        Ok(match command {
            ClientCommand::User(name) => {
                member.take_name(name)?;
                Reply::Welcome(name.to_owned())
            }
            ClientCommand::Sub(topic) => {
                from?;
                member.subscribe(topic)?;
                Reply::Ok
            }
            ClientCommand::Unsub(topic) => {
                member.unsubscribe(topic)?;
                Reply::Ok
            }
            ClientCommand::Pub { topic, text } => self.publish(topic, from?, text),
            ClientCommand::Push { user, text } => self.push(user, from?, text)?,
            ClientCommand::Ping => Reply::Pong,
            ClientCommand::Pong | ClientCommand::Help | ClientCommand::Quit => Reply::Ok,
        })
    }

    fn publish(&self, topic: &str, from: &str, text: &str) -> Reply {
        let (topic, from, text) = (topic.to_owned(), from.to_owned(), text.to_owned());
        let subscribers = self.registry.subscribers(&topic);
        let line = Bytes::from(Reply::Msg { topic, from, text }.to_string());
        let accepted = |client: &&Arc<GatewayClient>| {
            client.deliver(line.clone()) == DeliveryOutcome::Accepted
        };
        Reply::Queued(subscribers.iter().filter(accepted).count())
    }

    /// Looks up the user's channel and queues a line for it.
    fn push(&self, user: &str, from: &str, text: &str) -> Result<Reply, CommandError> {
        let no_such_user = || CommandError::NoSuchUser { user: user.to_owned() };
        let client = self.registry.user(user).ok_or_else(no_such_user)?;
        let line = Reply::Push { from: from.to_owned(), text: text.to_owned() }.to_string();
        match client.deliver(line.into()) {
            DeliveryOutcome::Accepted => Ok(Reply::Ok),
            DeliveryOutcome::Full => Err(CommandError::QueueFull { user: user.to_owned() }),
            DeliveryOutcome::Gone => Err(no_such_user()),
        }
    }
}

/// Why a command failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
enum CommandError {
    #[error("the gateway is shutting down; try again later")]
    Closing,
    #[error("no name yet; send USER name first")]
    NoName,
    #[error("no user is called {user}")]
    NoSuchUser { user: String },
    #[error("the outbox of {user} is full; try again later")]
    QueueFull { user: String },
    #[error(transparent)]
    RegistryError(#[from] RegistryError),
}

fn reply(ctx: &RemoteCtx, reply: &Reply) {
    ctx.write(reply.to_string());
}

impl RemoteHandler for Session {
    fn on_active(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        let client =
            GatewayClient::new(ctx.channel(), self.outbox.clone(), self.state.traffic.clone());
        match self.state.registry.join(client) {
            Ok(member) => {
                self.member = Some(member);
                ctx.write_and_flush(Reply::Hello.to_string());
            }
            Err(error) => {
                ctx.write_and_flush(FinalLine(Reply::Err(error.to_string()).to_string()));
            }
        }
        Ok(())
    }

    /// Removes the client from the registry: its name and topics become free.
    fn on_inactive(&mut self, _: &RemoteCtx) -> HandlerResult {
        self.member = None;
        Ok(())
    }

    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        if let Some(line) = msg.get::<String>() {
            self.execute_line(ctx, line);
        }
        Ok(())
    }

    /// Flushes the replies of a read round together.
    fn on_read_complete(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            self.disconnect(ctx, Reply::Bye("the gateway is shutting down"));
        } else if event.get() == Some(&HalfClosed::Input) {
            self.disconnect(ctx, Reply::Bye("end of input"));
        } else if let Some(idle) = event.get::<IdleEvent>() {
            if idle.first {
                ctx.write_and_flush(Reply::Ping.to_string());
            } else {
                self.disconnect(ctx, Reply::Bye("idle for too long"));
            }
        }
        Ok(())
    }

    /// Answers a line that cannot be decoded with an error; decoding continues with the next one. After other errors
    /// the channel is closed.
    fn on_error(&mut self, ctx: &RemoteCtx, error: Error) -> HandlerResult {
        let is_line_error = error.find::<LineTooLong>().is_some()
            || error.find::<NotUtf8>().is_some()
            || error.find::<LineUnfinished>().is_some();
        if is_line_error && self.member.is_some() {
            reply(ctx, &Reply::Err(error.to_string()));
        }
        Ok(())
    }
}
