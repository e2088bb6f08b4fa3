//! Local channels: a server and a client within the process, each with its pipeline.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use waterwheel::channel::driver::TaskOnly;
use waterwheel::channel::local::{self, Connection};
use waterwheel::channel::{
    Address, Completion, Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, NewChannel, Out,
    OutboundHandler, Pipeline, PipelineError, Types,
};
use waterwheel::executor::Error;

use crate::TourResult;
use crate::show::{LIMIT, chapter, thread_name};

pub(crate) fn run() -> TourResult {
    let group = EventLoopGroup::builder(TaskOnly).threads(2).name("channels").build()?;

    chapter("Channels: a server, a client, and a pipeline each");
    let server = local::listen("counter")?.initialiser(|edit| {
        edit.add_last("accept", In(AcceptHandler))?;
        Ok(())
    });
    let server = group.register(server).join()?;

    let (heard, answers) = mpsc::channel();
    let client = NewChannel::new(Connection::new()).initialiser(|edit| {
        edit.add_last("listen", In(ForwardReplies(heard)))?;
        Ok(())
    });
    let client = group.register(client).join()?;
    client.connect(Address::local("counter")).join()?;
    for word in ["wheel", "water", "millstone"] {
        client.write_and_flush(word.to_owned()).join()?;
        println!("  {}", answers.recv_timeout(LIMIT)?);
    }

    chapter("A pipeline is changed while the channel runs");
    let add = |pipeline: Pipeline<'_>| {
        pipeline.add_last("upper-case", Out(UpperCase))?;
        Ok::<_, PipelineError>(pipeline.names())
    };
    let names = client.with_pipeline(add).join()??;
    println!("  the client's handlers: {}", names.join(", "));
    client.write_and_flush("quietly".to_owned()).join()?;
    println!("  {}", answers.recv_timeout(LIMIT)?);

    chapter("Closing one end closes the other");
    server.close().join()?;
    client.close().join()?;
    println!("  {client:?}, {server:?}");
    group.shutdown_gracefully(Duration::ZERO, LIMIT)?.join()?;
    Ok(())
}

/// The server's handler: registers each accepted connection with the loop of the server.
struct AcceptHandler;

impl InboundHandler for AcceptHandler {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, connection: NewChannel) -> HandlerResult {
        ctx.event_loop().register_with(connection, |edit| {
            edit.add_last("count", In(LetterCounter { letters: 0 }))?;
            Ok(())
        })?;
        Ok(())
    }
}

/// Counts the letters that it reads. The handler runs on one loop only and needs no lock.
struct LetterCounter {
    letters: usize,
}

impl InboundHandler for LetterCounter {
    type In = String;

    fn answers(&self) -> Types {
        Types::of::<String>()
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, word: String) -> HandlerResult {
        self.letters += word.len();
        let on = thread_name();
        ctx.write_and_flush(format!("{word}: {} letters so far, counted on {on}", self.letters));
        Ok(())
    }
}

/// The client's handler: forwards replies to the main thread.
struct ForwardReplies(Sender<String>);

impl InboundHandler for ForwardReplies {
    type In = String;

    fn on_read(&mut self, _: &Ctx<'_>, answer: String) -> HandlerResult {
        self.0.send(answer).map_err(Error::new)
    }
}

/// Turns outbound text into upper case.
struct UpperCase;

impl OutboundHandler for UpperCase {
    type In = String;

    fn write(&mut self, ctx: &Ctx<'_>, msg: String, done: &mut Completion) -> HandlerResult {
        ctx.write_with(msg.to_uppercase(), done.take());
        Ok(())
    }
}
