//! The pipeline of a connection: a decoder and a stage in one slot, and a handler for what a stage does not receive.
//! Neither needs an encoder: a reply that is written by [`RespValue::write`] is not boxed as a message.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Completion, Ctx, Decode, Edit, Emit, HandlerResult, In, Inbound, InboundHandler, Msg,
    ReadPause, Stage,
};
use waterwheel::codec::{RespCommand, RespCommandDecoder, RespError, RespLimits, RespValue};
use waterwheel::executor;

use crate::client::{BatchReplies, Client, Step};
use crate::pubsub::{self, PublishedMessage};

/// Number of replies that a connection may wait for before it stops reading.
const MAX_PENDING_REPLIES: usize = 1024;
/// Number of bytes of replies at which a connection is closed: its client sends commands and reads nothing. High, because
/// stored values are not copied into replies.
const MAX_PENDING_BYTES: usize = 1024 * 1024 * 1024;

/// Builds the pipeline of a connection.
pub(crate) fn serve(edit: &mut Edit<'_>) -> Result<(), executor::Error> {
    let client = RefCell::new(Client::new(edit.channel()));
    let connection = Rc::new(Connection { client, read_pause: RefCell::default() });
    let decoder = RespCommandDecoder::new(RespLimits::default());
    edit.add_last(
        "commands",
        Inbound(Decode::new(decoder).then(CommandStage(connection.clone()))),
    )?;
    edit.add_last("events", In(ConnectionEvents(connection)))?;
    Ok(())
}

/// The parts that the two handlers of a connection share.
struct Connection {
    client: RefCell<Client>,
    /// Present while too many replies are pending, and at the end.
    read_pause: RefCell<Option<ReadPause>>,
}

impl Connection {
    /// Sends published messages and complete replies, up to the first reply that is not complete.
    fn proceed(&self, ctx: &Ctx<'_>) -> HandlerResult {
        loop {
            let step = self.client.borrow_mut().next_step();
            match step {
                Step::Publish(messages) => messages.into_iter().for_each(PublishedMessage::send),
                Step::Write(value, version) => {
                    value.write(ctx, version, &mut Completion::none())?;
                    ctx.flush();
                }
                Step::Close => {
                    // Completed when everything before it is sent; a close alone would not wait for that.
                    let channel = ctx.channel();
                    ctx.write_and_flush_then(Bytes::new(), move |_| channel.close_without_future());
                    self.read_pause.replace(Some(ctx.pause_reads()));
                }
                Step::Wait => break,
            }
        }
        if !ctx.is_writable() && ctx.channel().pending_bytes() > MAX_PENDING_BYTES {
            self.client.borrow_mut().has_quit = true;
            ctx.close();
        }
        Ok(())
    }

    /// Sends the commands of a round to the other loops, and stops reading while too many replies are pending.
    fn end_round(&self, ctx: &Ctx<'_>) {
        let mut client = self.client.borrow_mut();
        client.send_batches();
        let (pending, has_quit) = (client.pending(), client.has_quit);
        drop(client);
        let is_paused = self.read_pause.borrow().is_some();
        if pending > MAX_PENDING_REPLIES && !is_paused {
            self.read_pause.replace(Some(ctx.pause_reads()));
        } else if pending < MAX_PENDING_REPLIES / 2 && is_paused && !has_quit {
            drop(self.read_pause.take());
        }
    }
}

/// Executes the commands of one client.
struct CommandStage(Rc<Connection>);

impl Stage for CommandStage {
    type In = RespCommand;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, command: RespCommand, out: &mut O) -> HandlerResult {
        self.0.client.borrow_mut().accept(Ok(command));
        self.0.proceed(&out.ctx())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) {
        self.0.end_round(ctx);
    }

    /// Ends the connection after the last reply when the client has sent its last command.
    fn on_end<O: Emit<Infallible>>(&mut self, out: &mut O) -> HandlerResult {
        self.0.client.borrow_mut().is_ending = true;
        self.0.proceed(&out.ctx())?;
        self.0.end_round(&out.ctx());
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        pubsub::leave(&mut self.0.client.borrow_mut());
    }
}

/// Receives what a stage does not: replies of other loops, and errors.
struct ConnectionEvents(Rc<Connection>);

impl InboundHandler for ConnectionEvents {
    type In = Infallible;

    fn on_read(&mut self, _: &Ctx<'_>, never: Infallible) -> HandlerResult {
        match never {}
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.take::<BatchReplies>() {
            Ok(BatchReplies(parts)) => {
                let mut client = self.0.client.borrow_mut();
                parts.into_iter().for_each(|(number, part)| client.add_part(number, part));
                drop(client);
                self.0.proceed(ctx)?;
                self.0.end_round(ctx);
            }
            Err(event) => ctx.fire_user_event(event),
        }
        Ok(())
    }

    /// Answers a protocol error, after the replies before it, and closes the connection.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: executor::Error) -> HandlerResult {
        let mut client = self.0.client.borrow_mut();
        if let Some(error) = error.find::<RespError>() {
            client.accept(Err(RespValue::error(format!("ERR Protocol error: {error}"))));
        }
        client.is_ending = true;
        drop(client);
        self.0.proceed(ctx)
    }
}
