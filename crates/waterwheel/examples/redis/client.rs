//! A connection: sends commands to the loops that own their keys, and writes the replies in the order of the commands.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::mem;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, Ctx, Decode, Edit, Emit, HandlerResult, In, Inbound, InboundHandler, Message, Msg,
    ReadPause, Stage, Types,
};
use waterwheel::codec::{
    RespCommand, RespCommandDecoder, RespEncoder, RespError, RespLimits, RespValue, RespVersion,
};
use waterwheel::executor;

use crate::commands::{CommandSpec, Route, error, find, wrong_number};
use crate::pubsub;
use crate::shard::{Owners, Run, Shard, join_replies};

/// Number of replies that a connection may wait for before it stops reading.
const MAX_PENDING_REPLIES: usize = 1024;
/// Number of bytes of replies at which a connection is closed: its client sends commands and reads nothing. High, because
/// stored values are not copied into replies.
const MAX_PENDING_BYTES: usize = 1024 * 1024 * 1024;

/// Builds the pipeline of a connection.
pub(crate) fn serve(edit: &mut Edit<'_>) -> Result<(), executor::Error> {
    let client = Rc::new(RefCell::new(Client::new(edit.channel())));
    let decoder = RespCommandDecoder::new(RespLimits::default());
    edit.add_last("resp", RespEncoder::default())?;
    edit.add_last("commands", Inbound(Decode::new(decoder).then(CommandStage(client.clone()))))?;
    edit.add_last("events", In(ClientEvents(client)))?;
    Ok(())
}

/// The state of a connection. Never borrowed while a handler is called.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) name: Bytes,
    pub(crate) channel: Channel,
    pub(crate) version: Rc<Cell<RespVersion>>,
    pub(crate) topics: BTreeSet<Bytes>,
    pub(crate) shard: Rc<RefCell<Shard>>,
    pub(crate) owners: Owners,
    /// True if the connection is to be closed after the last reply, and further commands are ignored.
    pub(crate) is_ending: bool,
    /// Present while too many replies are pending.
    read_pause: Option<ReadPause>,
    /// Replies in the order of the commands. The first one may have to wait for another loop.
    replies: VecDeque<PendingReply>,
    /// The number of the first reply, counted from the beginning of the connection.
    first_reply: u64,
    /// Commands for each of the other loops, sent at the end of a round of reads.
    batches: Vec<Batch>,
}

/// A reply of which some loops have not sent their part yet.
#[derive(Default)]
struct PendingReply {
    missing_parts: usize,
    version: Option<RespVersion>,
    value: Option<RespValue>,
}

/// Commands with the numbers of their replies.
type Batch = Vec<(u64, Run, RespCommand)>;

/// The replies to a batch: a user event.
struct BatchReplies(Vec<(u64, RespValue)>);

impl Message for BatchReplies {}

impl Client {
    fn new(channel: Channel) -> Self {
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
            is_ending: false,
            read_pause: None,
            replies: VecDeque::new(),
            first_reply: 0,
        }
    }

    /// True if the connection has subscriptions and speaks RESP2, in which messages look like replies.
    pub(crate) fn is_in_push_mode(&self) -> bool {
        !self.topics.is_empty() && self.version.get() == RespVersion::Resp2
    }

    pub(crate) fn reply(&mut self, value: RespValue) {
        self.replies.push_back(PendingReply { value: Some(value), ..PendingReply::default() });
    }

    /// Sets the RESP version of the following replies.
    pub(crate) fn set_version(&mut self, version: RespVersion) {
        self.version.set(version);
        self.replies.push_back(PendingReply { version: Some(version), ..PendingReply::default() });
    }

    fn execute(&mut self, command: RespCommand) {
        if self.is_ending {
            return;
        }
        if let Err(error) = self.try_execute(command) {
            self.reply(error);
        }
    }

    fn try_execute(&mut self, command: RespCommand) -> Result<(), RespValue> {
        let CommandSpec(name, _, route) = find(&command)?;
        if self.is_in_push_mode() && !is_allowed_in_push_mode(name) {
            return Err(error(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
                 in this context"
            )));
        }
        match *route {
            Route::Client(run) => {
                let reply = run(self, &command)?;
                self.reply(reply);
            }
            Route::Key(run) => match self.owners.owner_of(&command[1]) {
                owner if owner == self.owners.here => {
                    let reply = Shard::run(&self.shard, run, &command);
                    self.reply(reply);
                }
                owner => self.run_at(&BTreeSet::from([owner]), run, &command),
            },
            Route::Keys(step, _) if !(command.len() - 1).is_multiple_of(step) => {
                return Err(wrong_number(name));
            }
            Route::Keys(step, run) => {
                let keys = command.iter().skip(1).step_by(step);
                let owners = keys.map(|key| self.owners.owner_of(key)).collect();
                self.run_at(&owners, run, &command);
            }
            Route::EveryLoop(run) => {
                self.run_at(&(0..self.owners.loops.len()).collect(), run, &command);
            }
        }
        Ok(())
    }

    /// Carries out a command at several loops, or at another one. The reply is complete when all have sent their part.
    fn run_at(&mut self, owners: &BTreeSet<usize>, run: Run, command: &RespCommand) {
        let number = self.first_reply + self.replies.len() as u64;
        let missing_parts = owners.len();
        self.replies.push_back(PendingReply { missing_parts, ..PendingReply::default() });
        for &owner in owners {
            if owner == self.owners.here {
                let part = Shard::run(&self.shard, run, command);
                self.add_part(number, part);
            } else {
                self.batches[owner].push((number, run, command.clone()));
            }
        }
    }

    fn add_part(&mut self, number: u64, part: RespValue) {
        if let Some(reply) = self.replies.get_mut((number - self.first_reply) as usize) {
            reply.missing_parts -= 1;
            reply.value = Some(match reply.value.take() {
                Some(value) => join_replies(value, part),
                None => part,
            });
        }
    }

    /// Sends the commands of this round of reads to the other loops, one task for each.
    fn send_batches(&mut self) {
        for (owner, batch) in self.batches.iter_mut().enumerate() {
            if batch.is_empty() {
                continue;
            }
            let (batch, channel) = (mem::take(batch), self.channel.clone());
            let run_batch = move || {
                let shard = Shard::here();
                let run = |(number, run, command)| (number, Shard::run(&shard, run, &command));
                channel.fire_user_event(BatchReplies(batch.into_iter().map(run).collect()));
            };
            let _ = self.owners.loops[owner].execute(run_batch); // Fails only at the end of the loop.
        }
    }

    fn next_ready(&mut self) -> Option<PendingReply> {
        let reply = self.replies.pop_front_if(|reply| reply.missing_parts == 0)?;
        self.first_reply += 1;
        Some(reply)
    }
}

fn is_allowed_in_push_mode(name: &str) -> bool {
    matches!(name, "subscribe" | "unsubscribe" | "ping" | "quit" | "reset")
}

/// Writes the replies that are complete, up to the first one that is not.
fn write_ready(client: &RefCell<Client>, ctx: &Ctx<'_>) {
    loop {
        let ready = client.borrow_mut().next_ready();
        let Some(PendingReply { version, value, .. }) = ready else { break };
        if let Some(version) = version {
            ctx.write(version);
        }
        if let Some(value) = value {
            ctx.write_and_flush(value);
        }
    }
    if !ctx.is_writable() && ctx.channel().pending_bytes() > MAX_PENDING_BYTES {
        ctx.close();
    }
    if client.borrow().is_ending && client.borrow().replies.is_empty() {
        // Completed when everything before it is sent; a close alone would not wait for that.
        let channel = ctx.channel();
        ctx.write_and_flush_then(Bytes::new(), move |_| channel.close_without_future());
    }
}

/// Stops reading while too many replies are pending.
fn limit_pending(client: &RefCell<Client>, ctx: &Ctx<'_>) {
    let pending = client.borrow().replies.len();
    let pause = client.borrow_mut().read_pause.take();
    let is_paused = pending > MAX_PENDING_REPLIES / if pause.is_some() { 2 } else { 1 };
    if is_paused {
        let pause = pause.unwrap_or_else(|| ctx.pause_reads());
        client.borrow_mut().read_pause = Some(pause);
    }
}

/// Executes the commands of one client.
struct CommandStage(Rc<RefCell<Client>>);

impl Stage for CommandStage {
    type In = RespCommand;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, command: RespCommand, out: &mut O) -> HandlerResult {
        self.0.borrow_mut().execute(command);
        write_ready(&self.0, &out.ctx());
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) {
        self.0.borrow_mut().send_batches();
        limit_pending(&self.0, ctx);
    }

    /// Closes the connection after the last reply when the client has sent its last command.
    fn on_end<O: Emit<Infallible>>(&mut self, out: &mut O) -> HandlerResult {
        let mut client = self.0.borrow_mut();
        client.send_batches();
        client.is_ending = true;
        drop(client);
        write_ready(&self.0, &out.ctx());
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        pubsub::leave(&mut self.0.borrow_mut());
    }

    fn answers(&self) -> Types {
        Types::of::<RespValue>()
    }
}

/// Receives what a stage does not: replies of other loops, and errors.
struct ClientEvents(Rc<RefCell<Client>>);

impl InboundHandler for ClientEvents {
    type In = Infallible;

    fn on_read(&mut self, _: &Ctx<'_>, never: Infallible) -> HandlerResult {
        match never {}
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.take::<BatchReplies>() {
            Ok(BatchReplies(parts)) => {
                let mut client = self.0.borrow_mut();
                parts.into_iter().for_each(|(number, part)| client.add_part(number, part));
                drop(client);
                write_ready(&self.0, ctx);
                limit_pending(&self.0, ctx);
            }
            Err(event) => ctx.fire_user_event(event),
        }
        Ok(())
    }

    /// Answers a protocol error, after the replies before it, and closes the connection.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: executor::Error) -> HandlerResult {
        let mut client = self.0.borrow_mut();
        if let Some(error) = error.find::<RespError>() {
            client.reply(RespValue::error(format!("ERR Protocol error: {error}")));
        }
        client.is_ending = true;
        drop(client);
        write_ready(&self.0, ctx);
        Ok(())
    }
}
