//! The state of a connection: sends commands to the loops that own their keys, and keeps the replies in the order of the
//! commands.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{Channel, Message};
use waterwheel::codec::{RespCommand, RespValue, RespVersion};

use crate::commands::{CommandSpec, Route, error, find, wrong_number};
use crate::pubsub::PublishedMessage;
use crate::shard::{Owners, Run, Shard, join_replies};

/// The state of a connection. Never borrowed while a handler is called, of this channel or of another.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) name: Bytes,
    pub(crate) channel: Channel,
    pub(crate) version: Rc<Cell<RespVersion>>,
    pub(crate) topics: BTreeSet<Bytes>,
    pub(crate) shard: Rc<RefCell<Shard>>,
    pub(crate) owners: Owners,
    /// True if further commands are ignored.
    pub(crate) has_quit: bool,
    /// True if the connection is closed after the last reply.
    pub(crate) is_ending: bool,
    /// Commands, or error replies in their place, that wait for a command that waits for earlier replies.
    waiting: VecDeque<Result<RespCommand, RespValue>>,
    /// Replies in the order of the commands. The first one may have to wait for another loop.
    replies: VecDeque<PendingReply>,
    /// The number of the first reply, counted from the beginning of the connection.
    first_reply: u64,
    /// Commands for each of the other loops, sent at the end of a round of reads.
    batches: Vec<Batch>,
    /// Messages for subscribers on this loop.
    published: Vec<PublishedMessage>,
}

/// A reply of which some loops may not have sent their part yet.
struct PendingReply {
    missing_parts: usize,
    value: Option<RespValue>,
}

/// Commands with the numbers of their replies.
type Batch = Vec<(u64, Run, RespCommand)>;

/// The replies to a batch: a user event.
pub(crate) struct BatchReplies(pub(crate) Vec<(u64, RespValue)>);

impl Message for BatchReplies {}

/// The next thing to do, when the client is not borrowed.
pub(crate) enum Step {
    Publish(Vec<PublishedMessage>),
    Write(RespValue, RespVersion),
    Close,
    Wait,
}

impl Client {
    pub(crate) fn new(channel: Channel) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let shard = Shard::here();
        let owners = shard.borrow().owners.clone();
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name: Bytes::new(),
            channel,
            version: Rc::default(),
            topics: BTreeSet::new(),
            shard,
            batches: owners.loops.iter().map(|_| Batch::new()).collect(),
            owners,
            has_quit: false,
            is_ending: false,
            waiting: VecDeque::new(),
            replies: VecDeque::new(),
            first_reply: 0,
            published: Vec::new(),
        }
    }

    /// True if the connection has subscriptions and speaks RESP2, in which messages look like replies.
    pub(crate) fn is_in_push_mode(&self) -> bool {
        !self.topics.is_empty() && self.version.get() == RespVersion::Resp2
    }

    pub(crate) fn reply(&mut self, value: RespValue) {
        self.replies.push_back(PendingReply { missing_parts: 0, value: Some(value) });
    }

    /// Ignores further commands, and ends the connection after the last reply.
    pub(crate) fn quit(&mut self) {
        (self.has_quit, self.is_ending) = (true, true);
    }

    /// Executes a command, or adds a reply, when everything before it allows that.
    pub(crate) fn accept(&mut self, command: Result<RespCommand, RespValue>) {
        if self.waiting.is_empty() && self.may_execute(&command) {
            self.execute(&command);
        } else {
            self.waiting.push_back(command);
        }
    }

    /// False for a command that changes the version or which messages the client gets, while replies are pending: these
    /// are written in the old version, and a message must not overtake the reply that announces it.
    fn may_execute(&self, command: &Result<RespCommand, RespValue>) -> bool {
        let changes_messages = |command: &RespCommand| {
            ["subscribe", "unsubscribe", "hello", "reset"].iter().any(|name| command.is(name))
        };
        self.replies.is_empty() || !command.as_ref().is_ok_and(changes_messages)
    }

    fn execute(&mut self, command: &Result<RespCommand, RespValue>) {
        if self.has_quit {
            return;
        }
        let done = command.as_ref().map_err(RespValue::clone);
        if let Err(error) = done.and_then(|command| self.try_execute(command)) {
            self.reply(error);
        }
    }

    fn try_execute(&mut self, command: &RespCommand) -> Result<(), RespValue> {
        let CommandSpec(name, _, route) = find(command)?;
        if self.is_in_push_mode() && !is_allowed_in_push_mode(name) {
            return Err(error(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
                 in this context"
            )));
        }
        match *route {
            Route::Client(run) => {
                let reply = run(self, command)?;
                self.reply(reply);
            }
            Route::Key(run) => match self.owners.owner_of(&command[1]) {
                owner if owner == self.owners.here => {
                    let reply = self.run_here(run, command);
                    self.reply(reply);
                }
                owner => self.run_at(&BTreeSet::from([owner]), run, command),
            },
            Route::Keys(step, _) if !(command.len() - 1).is_multiple_of(step) => {
                return Err(wrong_number(name));
            }
            Route::Keys(step, run) => {
                let keys = command.iter().skip(1).step_by(step);
                let owners = keys.map(|key| self.owners.owner_of(key)).collect();
                self.run_at(&owners, run, command);
            }
            Route::EveryLoop(run) => {
                self.run_at(&(0..self.owners.loops.len()).collect(), run, command);
            }
        }
        Ok(())
    }

    fn run_here(&mut self, run: Run, command: &RespCommand) -> RespValue {
        let mut shard = self.shard.borrow_mut();
        let reply = run(&mut shard, command).unwrap_or_else(|error| error);
        self.published.append(&mut shard.topics.published);
        reply
    }

    /// Executes a command on several loops, or on another one. The reply is complete when all have sent their part.
    fn run_at(&mut self, owners: &BTreeSet<usize>, run: Run, command: &RespCommand) {
        let number = self.first_reply + self.replies.len() as u64;
        let missing_parts = owners.len();
        self.replies.push_back(PendingReply { missing_parts, value: None });
        for &owner in owners {
            if owner == self.owners.here {
                let part = self.run_here(run, command);
                self.add_part(number, part);
            } else {
                self.batches[owner].push((number, run, command.clone()));
            }
        }
    }

    pub(crate) fn add_part(&mut self, number: u64, part: RespValue) {
        if let Some(reply) = self.replies.get_mut((number - self.first_reply) as usize) {
            reply.missing_parts -= 1;
            reply.value = Some(match reply.value.take() {
                Some(value) => join_replies(value, part),
                None => part,
            });
        }
    }

    /// Sends the commands of this round of reads to the other loops, one task for each.
    pub(crate) fn send_batches(&mut self) {
        for (owner, batch) in self.batches.iter_mut().enumerate() {
            if batch.is_empty() {
                continue;
            }
            let (batch, channel) = (mem::take(batch), self.channel.clone());
            let run_batch = move || {
                let run = |(number, run, command)| (number, Shard::run_and_publish(run, &command));
                channel.fire_user_event(BatchReplies(batch.into_iter().map(run).collect()));
            };
            let _ = self.owners.loops[owner].execute(run_batch); // Fails only at the end of the loop.
        }
    }

    /// Returns the number of commands without a reply.
    pub(crate) fn pending(&self) -> usize {
        self.replies.len() + self.waiting.len()
    }

    /// Returns what can be done now; executes waiting commands.
    pub(crate) fn next_step(&mut self) -> Step {
        loop {
            if !self.published.is_empty() {
                return Step::Publish(mem::take(&mut self.published));
            }
            if let Some(reply) = self.replies.pop_front_if(|reply| reply.missing_parts == 0) {
                self.first_reply += 1;
                return Step::Write(reply.value.unwrap_or(RespValue::Null), self.version.get());
            }
            match self.waiting.pop_front() {
                Some(command) if self.may_execute(&command) => self.execute(&command),
                Some(command) => {
                    self.waiting.push_front(command);
                    return Step::Wait;
                }
                None if self.is_ending && self.replies.is_empty() => {
                    (self.has_quit, self.is_ending) = (true, false); // Once.
                    return Step::Close;
                }
                None => return Step::Wait,
            }
        }
    }
}

fn is_allowed_in_push_mode(name: &str) -> bool {
    matches!(name, "subscribe" | "unsubscribe" | "ping" | "quit" | "reset")
}
