//! One client's conversation, on a business thread: never on a loop.
//!
//! It is an offloaded handler: lines reach it in order, one at a time, and its answers go back in order. While
//! it is busy, no more than a round of reads waits for it.

use std::sync::{Arc, Mutex};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{Draining, HalfClosed, HandlerResult, Msg, RemoteCtx, RemoteHandler};
use waterwheel::codec::{LineTooLong, LineUnfinished, NotUtf8};
use waterwheel::executor::Error;
use waterwheel::handlers::IdleEvent;

use crate::client::{Client, Delivery};
use crate::gate::Gate;
use crate::outbox::Outbox;
use crate::outlet::Farewell;
use crate::protocol::{Answer, Command, HELP};
use crate::registry::{Member, Refused, Registry};
use crate::traffic::Traffic;

/// What all sessions share.
#[derive(Debug)]
pub struct Desk {
    /// Who is here.
    pub registry: Arc<Registry>,
    /// Who is at work.
    pub gate: Gate,
    /// How many lines there were.
    pub traffic: Arc<Traffic>,
}

/// One client's conversation.
#[derive(Debug)]
pub struct Session {
    desk: Arc<Desk>,
    outbox: Arc<Mutex<Outbox>>,
    /// From the connection until it leaves.
    member: Option<Member>,
}

impl Session {
    /// With a client whose lines go into this outbox.
    #[must_use]
    pub fn new(desk: Arc<Desk>, outbox: Arc<Mutex<Outbox>>) -> Self {
        Self { desk, outbox, member: None }
    }

    /// A line was said. What follows a `QUIT` is not listened to.
    fn hear(&mut self, ctx: &RemoteCtx, line: &str) {
        let desk = self.desk.clone();
        let Some(member) = &mut self.member else { return };
        desk.traffic.line_in();
        // Until it is answered: see `Gateway::drain`.
        let Some(_pass) = desk.gate.enter() else {
            return say(ctx, &Answer::Err(Declined::Closing.to_string()));
        };
        match Command::parse(line) {
            Ok(Command::Quit) => self.leave(ctx, Answer::Bye("come again")),
            Ok(Command::Pong) => {}
            Ok(command) => {
                if command == Command::Help {
                    HELP.iter().for_each(|line| ctx.write(*line));
                }
                let done = desk.perform(command, member);
                say(ctx, &done.unwrap_or_else(|declined| Answer::Err(declined.to_string())));
            }
            Err(misunderstood) => say(ctx, &Answer::Err(misunderstood.to_string())),
        }
    }

    /// The client leaves, or is sent away. Nothing that was accepted for it is lost: it still gets what waits.
    fn leave(&mut self, ctx: &RemoteCtx, last: Answer) {
        if self.member.take().is_some() {
            ctx.write_and_flush(Farewell(last.to_string()));
        }
    }
}

impl Desk {
    fn perform(&self, command: Command<'_>, member: &mut Member) -> Result<Answer, Declined> {
        let from = member.name().ok_or(Declined::Nameless);
        Ok(match command {
            Command::User(name) => {
                member.take_name(name)?;
                Answer::Welcome(name.to_owned())
            }
            Command::Sub(topic) => {
                from?;
                member.subscribe(topic)?;
                Answer::Ok
            }
            Command::Unsub(topic) => {
                member.unsubscribe(topic)?;
                Answer::Ok
            }
            Command::Pub { topic, text } => self.publish(topic, from?, text),
            Command::Push { user, text } => self.push(user, from?, text)?,
            Command::Ping => Answer::Pong,
            Command::Pong | Command::Help | Command::Quit => Answer::Ok,
        })
    }

    fn publish(&self, topic: &str, from: &str, text: &str) -> Answer {
        let (topic, from, text) = (topic.to_owned(), from.to_owned(), text.to_owned());
        let subscribers = self.registry.subscribers(&topic);
        let line = Bytes::from(Answer::Msg { topic, from, text }.to_string());
        let accepted = |client: &&Arc<Client>| client.deliver(line.clone()) == Delivery::Accepted;
        Answer::Queued(subscribers.iter().filter(accepted).count())
    }

    /// Looks the user's channel up, and pushes.
    fn push(&self, user: &str, from: &str, text: &str) -> Result<Answer, Declined> {
        let nobody = || Declined::Nobody { user: user.to_owned() };
        let client = self.registry.user(user).ok_or_else(nobody)?;
        let line = Answer::Push { from: from.to_owned(), text: text.to_owned() }.to_string();
        match client.deliver(line.into()) {
            Delivery::Accepted => Ok(Answer::Ok),
            Delivery::Full => Err(Declined::QueueFull { user: user.to_owned() }),
            Delivery::Gone => Err(nobody()),
        }
    }
}

/// Why something is not done.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
enum Declined {
    #[error("the gateway is closing; come again later")]
    Closing,
    #[error("who are you? say USER name first")]
    Nameless,
    #[error("nobody here is called {user}")]
    Nobody { user: String },
    #[error("the queue of {user} is full; try again later")]
    QueueFull { user: String },
    #[error(transparent)]
    Refused(#[from] Refused),
}

fn say(ctx: &RemoteCtx, answer: &Answer) {
    ctx.write(answer.to_string());
}

impl RemoteHandler for Session {
    fn on_active(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        let client = Client::new(ctx.channel(), self.outbox.clone(), self.desk.traffic.clone());
        match self.desk.registry.join(client) {
            Ok(member) => {
                self.member = Some(member);
                ctx.write_and_flush(Answer::Hello.to_string());
            }
            Err(crowded) => {
                ctx.write_and_flush(Farewell(Answer::Err(crowded.to_string()).to_string()));
            }
        }
        Ok(())
    }

    /// Its name and its topics are free.
    fn on_inactive(&mut self, _: &RemoteCtx) -> HandlerResult {
        self.member = None;
        Ok(())
    }

    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        if let Some(line) = msg.get::<String>() {
            self.hear(ctx, line);
        }
        Ok(())
    }

    /// Answers go out together.
    fn on_read_complete(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            self.leave(ctx, Answer::Bye("the gateway is closing"));
        } else if event.get() == Some(&HalfClosed::Input) {
            self.leave(ctx, Answer::Bye("you have finished"));
        } else if let Some(idle) = event.get::<IdleEvent>() {
            if idle.first {
                ctx.write_and_flush(Answer::Ping.to_string());
            } else {
                self.leave(ctx, Answer::Bye("you have said nothing for too long"));
            }
        }
        Ok(())
    }

    /// A line that cannot be read is answered, and the next one is read. Other errors are followed by the end
    /// of the connection.
    fn on_error(&mut self, ctx: &RemoteCtx, error: Error) -> HandlerResult {
        let of_a_line = error.find::<LineTooLong>().is_some()
            || error.find::<NotUtf8>().is_some()
            || error.find::<LineUnfinished>().is_some();
        if of_a_line && self.member.is_some() {
            say(ctx, &Answer::Err(error.to_string()));
        }
        Ok(())
    }
}
